"""Batches in slices: the gradients of a batch, computed by several processes or, in a repeated training, by one.

The arithmetic depends on nothing but the number of slices, so it is enough to record that number. The process that owns
the training, the leader, computes the first slice and adds the others to it in order. It also computes a slice again
that a peer does not send, so a step never depends on another process. Batch normalisation keeps the statistics of the
first slice. Peers receive the weights for every step, hence they need neither optimiser nor schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from genepool.errors import DataError, TrainingError
from genepool.evaluation import Leader, Peers
from genepool.nn.batches import ALL
from genepool.nn.optimiser import MovingVariances
from genepool.nn.weights import from_bytes, to_bytes

Gradients = tuple[Tensor, ...]
Compute = Callable[[int, slice], tuple[Tensor, Gradients | None]]
"""(steps done, part of the batch) -> what the part contributes to the batch's loss and gradients. No gradients: the
loss scale was too large."""


def part_of(batch: int, place: int, slices: int) -> slice:
    """Return the images of one slice of a batch."""
    return slice(place * batch // slices, (place + 1) * batch // slices)


class FlatTensors:
    """Copies of tensors side by side in one buffer, which is sent and received at once."""

    def __init__(self, like: Sequence[Tensor]) -> None:
        sizes = [tensor.numel() for tensor in like]
        flat = torch.empty(sum(sizes))
        parts = flat.split(sizes)
        # In the memory layout of the originals: copies are then straight, and kernels see the strides that they know.
        self.tensors = tuple(
            part.as_strided(tensor.shape, tensor.stride(), part.storage_offset())
            for part, tensor in zip(parts, like, strict=True)
        )
        self.bytes = flat.numpy().data.cast("B")

    def filled(self, tensors: Sequence[Tensor]) -> memoryview:
        """Copy the tensors into the buffer and return it."""
        with torch.no_grad():
            torch._foreach_copy_(self.tensors, list(tensors))
        return self.bytes


class Slicing:
    """Divides the batches of one training."""

    def __init__(
        self, compute: Compute, model: nn.Module, variances: MovingVariances, batch: int, precision: str
    ) -> None:
        self._compute, self._model, self._variances, self._batch = compute, model, variances, batch
        self._precision = f"precision.{precision}"
        self.decisions: list[tuple[int, int]] = []
        """Pairs of steps done and slices from then on; one slice before the first."""
        self._slices = 1
        self._peers: Peers | None = None
        self._given: dict[int, int] = {}

    def share(self, peers: Peers | None) -> None:
        """Divide the batches among this process and its peers, from the next step on."""
        self._peers = peers

    def repeat(self, decisions: Iterable[tuple[int, int]]) -> None:
        """Compute as many slices as recorded, one after another."""
        self._given = dict(decisions)

    def gradients(self, step: int) -> tuple[Tensor, Gradients | None]:
        """Return the loss and the gradients of a batch."""
        slices = self._decide(step)
        loss, total = self._compute(step, ALL if slices == 1 else part_of(self._batch, 0, slices))
        for place in range(1, slices):
            more, gradients = self._other(step, place, slices)
            if total is None or gradients is None:
                return loss, None
            torch._foreach_add_(total, gradients)
            loss = loss + more
        return loss, total

    def _decide(self, step: int) -> int:
        if self._given:
            slices = self._given.get(step, self._slices)
        else:
            slices = self._peers.begin(step, self._weights, self._state) if self._peers else 1
        if slices != self._slices:
            self.decisions.append((step, slices))
            self._slices = slices
            self._variances.change(self._first)
        return slices

    @property
    def _first(self) -> int:
        """The number of images in the first slice."""
        return part_of(self._batch, 0, self._slices).stop

    def _other(self, step: int, place: int, slices: int) -> tuple[float, Gradients | None]:
        if self._peers is not None and (loss := self._peers.collect(place, self._buffer.bytes)) is not None:
            return loss, self._buffer.tensors
        with self._same_statistics():
            computed, gradients = self._compute(step, part_of(self._batch, place, slices))
        return computed.item(), gradients

    @contextmanager
    def _same_statistics(self) -> Iterator[None]:
        """Keep the statistics of batch normalisation: they are the first slice's."""
        buffers = list(self._model.buffers())
        before = [buffer.clone() for buffer in buffers]
        yield
        for buffer, value in zip(buffers, before, strict=True):
            buffer.copy_(value)

    @property
    def _parameters(self) -> list[Tensor]:
        return list(self._model.parameters())

    @property
    def _buffer(self) -> FlatTensors:
        """Where weights and gradients are sent from and received; made when the first peer comes."""
        known: FlatTensors | None = self.__dict__.get("buffer")
        if known is None:
            known = self.__dict__["buffer"] = FlatTensors(self._parameters)
        return known

    def _weights(self) -> memoryview:
        return self._buffer.filled(self._parameters)

    def _state(self) -> bytes:
        return to_bytes({**self._model.state_dict(), self._precision: torch.zeros(1)})

    def help(self, leader: Leader) -> None:
        """Compute slices for the leader until it has no more."""
        self._load(leader.state())
        parameters = self._parameters
        weights, sent = FlatTensors(parameters), FlatTensors(parameters)
        while (task := leader.next_slice(weights.bytes)) is not None:
            with torch.no_grad():
                torch._foreach_copy_(parameters, weights.tensors)
            loss, gradients = self._compute(task.step, part_of(self._batch, task.place, task.slices))
            leader.send(loss.item(), sent.filled(gradients or ()))

    def _load(self, state: bytes) -> None:
        """Take over the complete state: it may also hold tensors that are never sent again."""
        tensors = from_bytes(state)
        if self._precision not in tensors:
            raise TrainingError("this machine computes in another precision than the leader's.")
        try:
            with torch.no_grad():
                for name, tensor in self._model.state_dict().items():
                    tensor.copy_(tensors[name])
        except (KeyError, RuntimeError) as error:
            raise DataError(f"the leader's state does not belong to this network: {error}.") from None

    def state(self) -> dict[str, Tensor]:
        """Return what a checkpoint needs."""
        return {"slices": torch.tensor(self.decisions, dtype=torch.float64)} if self.decisions else {}

    def resume(self, tensors: dict[str, Tensor]) -> None:
        if "slices" in tensors:
            self.decisions = [(int(step), int(slices)) for step, slices in tensors["slices"].tolist()]
            _, self._slices = self.decisions[-1]
            self._variances.resume(self._first)
