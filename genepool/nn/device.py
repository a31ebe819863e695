"""The process around the training: its threads, memory, device and arithmetic.

The process around the training: its threads, its memory and its device.

Arithmetic in fewer bits where that is faster: bfloat16, or float16 with a loss scale on older GPUs.

Differs from the paper, which trains in float32. Weights, momentum and the update stay in float32 here too, and so does
validation: it is float32 networks that are handed over. Processors with instructions for bfloat16 are up to twice as
fast at convolutions; those without take ten times as long.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from genepool.errors import SettingsError

DEVICES = ("auto", "cpu", "cuda", "mps")

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_LARGEST_MMAP_THRESHOLD = 32 * 2**20 * ctypes.sizeof(ctypes.c_long)


def prepare_process(threads: int = 1) -> None:
    """To be called once, before the first tensor.

    One thread, because one worker a core beats one worker with all cores, does not collapse when something else runs,
    and makes sums the same in each run. And freed memory is kept: small networks otherwise spend up to half of their
    time in page faults, since glibc gives large blocks back to the system after each layer.
    """
    # Virtual machines may announce AMX and then end a process that uses it; only bfloat16 would.
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
    torch.set_num_threads(threads)
    _of_glibc("mallopt", _M_MMAP_THRESHOLD, min(_LARGEST_MMAP_THRESHOLD, 2**30))
    _of_glibc("mallopt", _M_TRIM_THRESHOLD, 2**30)


@contextmanager
def threads(number: int) -> Iterator[None]:
    """So many for a while; 0: as many as there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(number or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def give_memory_back(beyond: int) -> None:
    """Before a training, if the process holds more than so many bytes of its own.

    What is kept of a large network would otherwise come on top of the next one.
    """
    try:
        _, resident, shared, *_ = Path("/proc/self/statm").read_bytes().split()
    except OSError:  # not Linux
        return
    if (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE") > beyond:
        _of_glibc("malloc_trim", 0)


def _of_glibc(name: str, *arguments: int) -> None:
    """Calls a function of the C library, where there is one of that name: neither musl nor other systems have these."""
    function = getattr(ctypes.CDLL(None), name, None) if sys.platform.startswith("linux") else None
    if function is not None:
        function(*arguments)


def choose_device(name: str, number: int = 0) -> torch.device:
    """The device of that name; `auto` takes a GPU if there is one. Workers share several GPUs out by their numbers."""
    if name not in DEVICES and not name.startswith("cuda:"):
        raise SettingsError(f"There is no device '{name}'; choose one of {', '.join(DEVICES)}.")
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        name = next(kind for kind in ("cuda", "mps", "cpu") if available[kind])
    if not available[name.split(":")[0]]:
        raise SettingsError(f"This machine, or this build of torch, has no device '{name}'; use --device cpu.")
    if name == "cuda" and torch.cuda.device_count() > 1:
        name = f"cuda:{number % torch.cuda.device_count()}"
    return torch.device(name)


def gpus(name: str) -> int:
    """How many GPUs workers would share out among themselves on a device of that name."""
    device = choose_device(name)
    if device.type == "cpu":
        return 0
    return torch.cuda.device_count() if name in ("auto", "cuda") and device.type == "cuda" else 1


def share_of_gpu(device: torch.device, workers: int) -> int:
    """Bytes of a GPU's memory for each of the workers on it; a tenth stays for what torch needs there."""
    return int(0.9 * torch.cuda.get_device_properties(device).total_memory) // workers


def versions() -> dict[str, str]:
    """Of the program and of what computes: with the seeds, what a result depends on."""
    import platform

    import numpy as np

    from genepool import __version__

    return {
        "genepool": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
    }


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
