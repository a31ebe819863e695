"""Arithmetic in fewer bits where that is faster: bfloat16, or float16 with a loss scale on older GPUs.

Differs from the paper, which trains in float32. Weights, momentum and the update stay in float32 here too, and so does
validation: it is float32 networks that are handed over. Processors with instructions for bfloat16 are up to twice as
fast at convolutions; those without take ten times as long.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch
from torch import Tensor

GROWTH, BACKOFF, INTERVAL = 2.0, 0.5, 2000
"""Of the loss scale, as torch's own GradScaler has them."""
_WITHOUT = {"SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2", "AVX512_CORE", "AVX512_CORE_VNNI"}
"""What ONEDNN_MAX_CPU_ISA may say that leaves bfloat16 to be imitated."""


class Precision:
    """How losses and gradients are computed."""

    def __init__(self, device: torch.device, *, mixed: bool, kind: torch.dtype | None = None) -> None:
        self._device = device.type
        self._kind = (kind or _fastest(device)) if mixed else torch.float32
        self.mixed = self._kind is not torch.float32
        self.name = str(self._kind).removeprefix("torch.")
        scaled = self._kind is torch.float16
        self.scale = torch.full((), 65536.0, device=device) if scaled else None
        self._since_growth = torch.zeros((), dtype=torch.int32, device=device)

    def state(self) -> Tensor | None:
        """What the rest of a training depends on, as numbers; None where there is nothing."""
        return None if self.scale is None else torch.stack((self.scale, self._since_growth.float()))

    def resume(self, state: Tensor) -> None:
        """Goes back to where that was."""
        if self.scale is not None:
            self.scale.copy_(state[0])
            self._since_growth.copy_(state[1])

    def autocast(self) -> torch.autocast:
        """The context in which a network is computed."""
        return torch.autocast(self._device, dtype=self._kind if self.mixed else None, enabled=self.mixed)

    def gradients(self, loss: Tensor, parameters: Sequence[Tensor]) -> tuple[Tensor, ...] | None:
        """Of each parameter; None where the scale was too large, which is then halved, and the step left out.

        Only float16 has a scale, and only then does the device have to be asked at every step.
        """
        if self.scale is None:
            return torch.autograd.grad(loss, parameters)
        gradients = torch.autograd.grad(loss * self.scale, parameters)
        overflow = torch.zeros((), device=loss.device)
        torch._amp_foreach_non_finite_check_and_unscale_(list(gradients), overflow, self.scale.reciprocal())
        torch._amp_update_scale_(self.scale, self._since_growth, overflow, GROWTH, BACKOFF, INTERVAL)
        return None if overflow.item() else gradients


def is_mixed(precision: str, device: torch.device) -> bool:
    """What a setting means on a device.

    `auto` stays with float32 on GPUs: small networks make them wait for the next call, and casts are more calls.
    """
    if precision == "auto":
        return device.type == "cpu" and _has_bfloat16()
    return precision == "mixed"


def _has_bfloat16() -> bool:
    """Whether the processor has instructions for it, and whoever started this process lets oneDNN use them."""
    most = os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper()
    return bool(torch.cpu.get_capabilities().get("avx512_bf16")) and most not in _WITHOUT


def _fastest(device: torch.device) -> torch.dtype:
    old = device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.float16 if old else torch.bfloat16
