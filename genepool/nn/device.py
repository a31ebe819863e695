"""Threads, memory, device and arithmetic of a process that trains.

Mixed precision uses bfloat16, or float16 with a loss scale on older GPUs. Differs from the paper, which trains in
float32. Weights, momentum, the update and validation stay in float32 here too. CPUs with bfloat16 instructions are up
to twice as fast at convolutions; those without are ten times slower.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from genepool.dna import DNA
from genepool.errors import SettingsError

DEVICES = ("auto", "cpu", "cuda", "mps")

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST_MMAP_THRESHOLD = 32 * 2**20 * ctypes.sizeof(ctypes.c_long)


def prepare_process(threads: int = 1) -> None:
    """Set up the process; call this once, before the first tensor. Freed memory is kept: small networks would spend up
    to half of their time in page faults.
    """
    # Virtual machines may announce AMX and then kill a process that uses it; only bfloat16 would.
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
    torch.set_num_threads(threads)
    _of_glibc("mallopt", _M_MMAP_THRESHOLD, min(_LARGEST_MMAP_THRESHOLD, 2**30))
    _of_glibc("mallopt", _M_TRIM_THRESHOLD, 2**30)


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Use this number of threads for a while; 0 keeps the current number."""
    before = torch.get_num_threads()
    torch.set_num_threads(number or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def give_memory_back(beyond: int) -> None:
    """Return freed memory if the process holds more than `beyond` private bytes: the next network needs more."""
    try:
        _, resident, shared, *_ = Path("/proc/self/statm").read_bytes().split()
    except OSError:  # not Linux
        return
    if (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE") > beyond:
        _of_glibc("malloc_trim", 0)


def _of_glibc(name: str, *arguments: int) -> None:
    """Call a function of glibc; musl and other systems do not have these."""
    function = getattr(ctypes.CDLL(None), name, None) if sys.platform.startswith("linux") else None
    if function is not None:
        function(*arguments)


def choose_device(name: str, number: int = 0) -> torch.device:
    """Return the device of that name; `auto` prefers a GPU. Workers are spread over several GPUs by their numbers."""
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
    """Return the number of GPUs that workers would share on a device of that name."""
    device = choose_device(name)
    if device.type == "cpu":
        return 0
    return torch.cuda.device_count() if name in ("auto", "cuda") and device.type == "cuda" else 1


def share_of_gpu(device: torch.device, workers: int) -> int:
    """Return the bytes of a GPU's memory per worker; a tenth is reserved for torch itself."""
    return int(0.9 * torch.cuda.get_device_properties(device).total_memory) // workers


def versions() -> dict[str, str]:
    """Return the versions that a result depends on, besides the seeds."""
    from genepool import __version__

    return {
        "genepool": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
    }


GROWTH, BACKOFF, INTERVAL = 2.0, 0.5, 2000  # the constants of the loss scale, as in torch's own GradScaler
_WITHOUT = {"SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2", "AVX512_CORE", "AVX512_CORE_VNNI"}
"""Values of ONEDNN_MAX_CPU_ISA with which bfloat16 is emulated."""


class Precision:
    def __init__(self, device: torch.device, *, mixed: bool, kind: torch.dtype | None = None) -> None:
        self._device = device.type
        self._kind = (kind or _fastest(device)) if mixed else torch.float32
        self.mixed = self._kind is not torch.float32
        self.name = str(self._kind).removeprefix("torch.")
        self.scale = torch.full((), 65536.0, device=device) if self._kind is torch.float16 else None
        self._since_growth = torch.zeros((), dtype=torch.int32, device=device)

    def state(self) -> Tensor | None:
        """Return the state that a checkpoint needs, or None."""
        return None if self.scale is None else torch.stack((self.scale, self._since_growth.float()))

    def resume(self, state: Tensor) -> None:
        if self.scale is not None:
            self.scale.copy_(state[0])
            self._since_growth.copy_(state[1])

    def autocast(self) -> torch.autocast:
        """The context in which a network is computed."""
        return torch.autocast(self._device, dtype=self._kind if self.mixed else None, enabled=self.mixed)

    def gradients(self, loss: Tensor, parameters: Sequence[Tensor]) -> tuple[Tensor, ...] | None:
        """Return the gradients, or None if the loss scale was too large: it is then halved and the step skipped. Only
        float16 has a scale, so only float16 waits for the device in every step.
        """
        if self.scale is None:
            return torch.autograd.grad(loss, parameters)
        gradients = torch.autograd.grad(loss * self.scale, parameters)
        overflow = torch.zeros((), device=loss.device)
        torch._amp_foreach_non_finite_check_and_unscale_(list(gradients), overflow, self.scale.reciprocal())
        torch._amp_update_scale_(self.scale, self._since_growth, overflow, GROWTH, BACKOFF, INTERVAL)
        return None if overflow.item() else gradients


def is_mixed(precision: str, device: torch.device, dna: DNA | None = None) -> bool:
    """Return whether a precision setting means mixed precision on this device, for this network. `auto` means float32
    on GPUs: small networks leave them waiting for calls, and casts are more calls. It also means float32 for a network
    with layers that are slower in bfloat16, such as depthwise convolutions.
    """
    if precision == "auto":
        slow = dna is not None and not all(edge.FAST_IN_BFLOAT16 for edge in dna.edges)
        return device.type == "cpu" and _has_bfloat16() and not slow
    return precision == "mixed"


def _has_bfloat16() -> bool:
    """Return whether the CPU has bfloat16 instructions and ONEDNN_MAX_CPU_ISA allows oneDNN to use them."""
    most = os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper()
    return bool(torch.cpu.get_capabilities().get("avx512_bf16")) and most not in _WITHOUT


def _fastest(device: torch.device) -> torch.dtype:
    old = device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.float16 if old else torch.bfloat16
