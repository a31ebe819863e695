"""`genepool run --engine ray`: what the command line says about a Ray cluster, and the workers on one."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from genepool.errors import SettingsError

if TYPE_CHECKING:
    from genepool.experiment import Experiment
    from genepool.workers.pool import WorkerPool


class RayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of Ray."""

    address: str | None = None
    cpus: float = 1.0
    gpus: float = 0.0
    serve: bool = False

    def refuse_without(self, engine: str) -> None:
        """An option of Ray's that would do nothing is a mistake."""
        if engine != "ray" and self != RayOptions():
            raise SettingsError(
                "--address, --cpus-per-worker, --gpus-per-worker and --serve-population need --engine ray."
            )

    @contextmanager
    def pool(
        self,
        experiment: Experiment,
        *,
        device: str,
        data_dir: Path | None,
        memory: str | None,
        plugins: tuple[str, ...] = (),
    ) -> Iterator[Callable[[], WorkerPool]]:
        """Joins the cluster, checks its nodes, and can then start workers; leaves the cluster at the end."""
        from genepool.experiment.worker_process import WorkerOptions, accounts_of, images, images_of, run_worker
        from genepool.registry import named_by_environment
        from genepool.settings import size
        from genepool.workers.ray.nodes import check_images, check_nodes, join
        from genepool.workers.ray.pool import Job, RayPool, Share
        from genepool.workers.ray.service import serve

        directory = experiment.path.resolve()
        share = Share(cpus=self.cpus, gpus=self.gpus)
        options = WorkerOptions(
            directory=str(directory),
            number=0,
            device=device,
            data_dir=str(data_dir.resolve()) if data_dir else None,
            memory=size(memory) if memory else None,
            threads=max(1, math.floor(self.cpus)),
            together=math.floor(1 / self.gpus) or 1 if self.gpus else None,
            plugins=tuple(map(_found_anywhere, [*named_by_environment(), *plugins])),
        )
        if self.serve and experiment.settings().experiment.start is not None:
            raise SettingsError(
                "An experiment with --start needs nodes that see its directory, not --serve-population."
            )
        ray = join(self.address)
        check = functools.partial(check_nodes, ray, None if self.serve else directory, share.asked())
        try:
            check()
            service = data = None
            if self.serve:
                from genepool.data.dataset import portable

                service = serve(ray, str(directory), accounts_of)
                data = ray.put(portable(images(experiment, options)))
            else:
                options = msgspec.structs.replace(options, images=check_images(ray, images_of, options, share.asked()))
            job = Job(
                work=run_worker,
                options=lambda number: msgspec.structs.replace(options, number=number),
                share=share,
                wanted=lambda: experiment.settings().workers.count or 0,
                check=check,
                logs=None if self.serve else directory / "logs",
            )
            yield lambda: RayPool(ray, job, service, data)
        finally:
            ray.shutdown()


def _found_anywhere(plugin: str) -> str:
    """Nodes have folders and an environment of their own."""
    return str(Path(plugin).resolve()) if plugin.endswith(".py") else plugin


def RAY(command: Callable[..., Any]) -> Callable[..., Any]:  # noqa: N802 - stands among the other options
    """Options of Ray, handed to the command as one value."""

    @click.option(
        "--address",
        help="Ray only: the cluster, auto or like 10.0.0.5:6379.  [default: RAY_ADDRESS, or a new one here]",
    )
    @click.option("--cpus-per-worker", type=click.FloatRange(0, 1024), default=1.0, help="Ray only.  [default: 1]")
    @click.option(
        "--gpus-per-worker", type=click.FloatRange(0, 64), default=0.0, help="Ray only, like 0.25.  [default: 0]"
    )
    @click.option("--serve-population", is_flag=True, help="Ray only: serve DIR from here to nodes that do not see it.")
    @functools.wraps(command)
    def wrapped(
        *arguments: Any,
        address: str | None,
        cpus_per_worker: float,
        gpus_per_worker: float,
        serve_population: bool,
        **options: Any,
    ) -> Any:
        asked = RayOptions(address=address, cpus=cpus_per_worker, gpus=gpus_per_worker, serve=serve_population)
        return command(*arguments, ray=asked, **options)

    return wrapped
