"""Workers through somebody else's scheduler: a Slurm job array, a Kubernetes Indexed Job, a loop over ssh.

Each is a text that runs `genepool worker` so many times, with numbers from 0. No secret is ever in one: whatever a
cluster asks for comes from its own files or from the environment of whoever submits.
"""

from __future__ import annotations

import json
import math
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from genepool.errors import EngineError, SettingsError, shown

TOLD = 75
"""The exit code of a worker that was told to stop and has handed its training over: it wants to be started again."""
NOTICE = 90
"""Seconds between the wish that a worker stops and its end: enough for a checkpoint."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a scheduler."""

    directory: str
    """Absolute, and the same wherever workers will run."""
    workers: int
    cpus: int = 1
    gpus: float = 0.0
    """A worker's; a fraction where the scheduler shares GPUs out."""
    memory: int | None = None
    """Bytes a worker."""
    seconds: int | None = None
    """After so many the scheduler ends a worker, and it begins again."""
    options: tuple[str, ...] = ()
    """Words for every worker's command line."""
    python: str = sys.executable
    hosts: tuple[str, ...] = ()
    image: str = ""
    claim: str = ""

    def __post_init__(self) -> None:
        if self.workers < 1 or self.cpus < 1 or self.gpus < 0:
            raise SettingsError("A worker at least, with a core at least, must be asked for, and no less than no GPU.")
        if not self.directory.isprintable() or not all(text.isprintable() for text in self.options):
            raise SettingsError(f"The name '{shown(self.directory)}' cannot stand in a script; rename the directory.")

    @property
    def name(self) -> str:
        """Letters, digits and dashes, as all schedulers take them."""
        return f"genepool-{re.sub('[^a-z0-9]+', '-', Path(self.directory).name.lower()).strip('-')[:40] or 'run'}"

    def whole_gpus(self, scheduler: str) -> int:
        """For schedulers that give a job whole GPUs only."""
        if self.gpus != math.floor(self.gpus):
            raise SettingsError(
                f"{scheduler} gives a worker whole GPUs, not {self.gpus:g}; ask for 0 or 1, or share GPUs with Ray."
            )
        return int(self.gpus)


class Launcher(msgspec.Struct, frozen=True, kw_only=True):
    """One scheduler: how its text is written, and the program that takes it from standard input."""

    write: Callable[[Order], str]
    submit: tuple[str, ...]
    advice: str


def submit(launcher: Launcher, text: str) -> str:
    """Hands the text to its scheduler and returns what that said."""
    program = launcher.submit[0]
    if shutil.which(program) is None:
        raise EngineError(f"There is no program '{program}' here; {launcher.advice}.")
    done = subprocess.run(launcher.submit, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        words = shown((done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1])
        raise EngineError(f"'{program}' refused: {words.rstrip('.')}.")
    return done.stdout.strip()


# -- Slurm -------------------------------------------------------------------------------------------------------------


_ENDED = 128 + signal.SIGTERM
"""The exit code of a worker that was told to stop before it could listen."""
# srun, because Slurm tells the steps of a job that it will end, not its script: the script outlives its worker and
# requeues the job, which Slurm does not do by itself for one that ends within the time of grace before a pre-emption.
# Somebody who cancels the job ends the script as well.
_SLURM = """# A worker that was told to stop wants to go on elsewhere, one that died here.
while :; do
  {command}
  code=$?
  case $code in
    0 | 2) exit $code ;;
    {told} | {ended})
      scontrol requeue "$SLURM_ARRAY_JOB_ID"_"$SLURM_ARRAY_TASK_ID"
      exit $code ;;
  esac
  sleep 10
done
"""


def slurm(order: Order) -> str:
    """A job array. A job that is pre-empted, or whose node is lost, is put back by Slurm and goes on elsewhere."""
    gpus = order.whole_gpus("Slurm")
    log = f"{order.directory}/logs/slurm-".replace("%", "%%")
    asked = [
        f"--job-name={order.name}",
        f"--array=0-{order.workers - 1}",
        "--ntasks=1",
        f"--cpus-per-task={order.cpus}",
        *([f"--gres=gpu:{gpus}"] if gpus else []),
        *([f"--mem={_mebibytes(order.memory)}M"] if order.memory else []),
        *([f"--time={_slurm_time(order.seconds)}", f"--signal=TERM@{NOTICE}"] if order.seconds else []),
        "--requeue",
        "--open-mode=append",
        f'--output="{log}%A-%a.log"',
    ]
    command = _line(["srun", *_worker(order, number="$SLURM_ARRAY_TASK_ID")])
    script = _SLURM.format(command=command, told=TOLD, ended=_ENDED)
    return "\n".join(["#!/bin/bash", *(f"#SBATCH {line}" for line in asked), "", script])


def _slurm_time(seconds: int) -> str:
    minutes = max(math.ceil(seconds / 60), math.ceil(2 * NOTICE / 60))
    return f"{minutes // 1440}-{minutes % 1440 // 60:02d}:{minutes % 60:02d}:00"


# -- Kubernetes --------------------------------------------------------------------------------------------------------


def kubernetes(order: Order) -> str:
    """An Indexed Job on a shared volume. A pod that is evicted is started again and takes the next training over."""
    if not order.image or not order.claim:
        raise SettingsError("Kubernetes needs --image (with Genepool in it) and --claim (a volume that pods share).")
    gpus = order.whole_gpus("Kubernetes")
    command = ["python", *_worker(order, number="$(WORKER)")[1:]]
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    if order.memory:
        limits["memory"] = f"{_mebibytes(order.memory)}Mi"
    container = {
        "name": "worker",
        "image": order.image,
        "command": command,
        "env": [
            # The number of the pod within its job.
            {
                "name": "WORKER",
                "valueFrom": {
                    "fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}
                },
            },
            {"name": "OMP_NUM_THREADS", "value": "1"},
        ],
        "resources": {"requests": {"cpu": str(order.cpus), **limits}, **({"limits": limits} if limits else {})},
        "volumeMounts": [{"name": "experiment", "mountPath": str(Path(order.directory).parent)}],
    }
    codes = {"containerName": "worker", "operator": "In"}
    spec = {
        "completionMode": "Indexed",
        "completions": order.workers,
        "parallelism": order.workers,
        "backoffLimitPerIndex": 1000,
        "podFailurePolicy": {
            "rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                {"action": "Ignore", "onExitCodes": {**codes, "values": [TOLD]}},
                {"action": "FailJob", "onExitCodes": {**codes, "values": [2]}},
            ]
        },
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": NOTICE,
                "containers": [container],
                "volumes": [{"name": "experiment", "persistentVolumeClaim": {"claimName": order.claim}}],
            }
        },
    }
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": order.name}, "spec": spec}
    return "\n".join(_yaml(job, 0)) + "\n"


def _yaml(value: object, depth: int) -> list[str]:
    """The same as JSON in YAML's form, which people of that world read; texts stay in quotes and so mean themselves."""
    indent = "  " * depth
    lines: list[str] = []
    if isinstance(value, dict):
        for key, inner in value.items():
            lines += _entry(f"{indent}{key}:", inner, depth)
    elif isinstance(value, list):
        for inner in value:
            first, *rest = _yaml(inner, depth + 1) if _nested(inner) else [json.dumps(inner)]
            lines += [f"{indent}- {first.strip()}", *rest]
    return lines


def _entry(head: str, inner: object, depth: int) -> list[str]:
    if _nested(inner):
        return [head, *_yaml(inner, depth + 1)]
    return [f"{head} {json.dumps(inner)}"]


def _nested(value: object) -> bool:
    return isinstance(value, dict | list) and bool(value)


# -- ssh ---------------------------------------------------------------------------------------------------------------

_SSH = """#!/bin/bash
# Starts {workers} workers over ssh, each of which is started again if it dies; `bash FILE stop` ends them.
# Uses your own keys and settings of ssh, and asks for nothing.
hosts=({hosts})
for number in $(seq 0 {last}); do
  host=${{hosts[$((number % ${{#hosts[@]}}))]}}
  note={logs}/ssh-$number
  if [ "$1" = stop ]; then
    ssh -n -o BatchMode=yes "$host" "kill -TERM \\$(cat '$note.pid')"
  else
    ssh -n -o BatchMode=yes "$host" "nohup setsid sh -c {loop} $number '$note' >> '$note.log' 2>&1 < /dev/null &"
  fi || echo "worker $number: ssh to $host failed" >&2
done
"""
_LOOP = """echo $$ > "$1.pid"
trap "told=1; kill -TERM \\$worker" TERM
while :; do
  {command} &
  worker=$!
  wait $worker
  code=$?
  [ -n "$told" ] && wait $worker && exit
  [ -n "$told" ] || [ $code = 0 ] || [ $code = 2 ] && exit $code
  sleep 10
done"""


def ssh(order: Order) -> str:
    """A script that starts workers on hosts that see the same directory, and stops them again."""
    if not order.hosts:
        raise SettingsError("Over ssh workers need --hosts, like --hosts node1,node2.")
    if any(host.startswith("-") for host in order.hosts):
        raise SettingsError(f"'{shown(min(order.hosts))}' is not the name of a host.")
    if "'" in order.directory:
        raise SettingsError(f"The name '{shown(order.directory)}' cannot stand in a script; rename the directory.")
    if order.gpus:
        raise SettingsError("Over ssh GPUs are not shared out; workers take a host's GPUs in turn by their numbers.")
    loop = _LOOP.format(command=_line(_worker(order, number="$0")))
    return _SSH.format(
        workers=order.workers,
        last=order.workers - 1,
        hosts=" ".join(shlex.quote(host) for host in order.hosts),
        logs=shlex.quote(f"{order.directory}/logs"),
        # Once for the host's shell, and once more because it stands between double quotes here.
        loop=re.sub(r'([\\"$`])', r"\\\1", shlex.quote(loop)),
    )


# -- all of them -------------------------------------------------------------------------------------------------------


def _worker(order: Order, number: str) -> list[str]:
    memory = ["--memory", str(order.memory)] if order.memory else []
    told = ["--exit-when-told", str(TOLD)]
    threads = ["--threads", str(order.cpus)] if order.cpus > 1 else []
    words = ["-m", "genepool", "worker", order.directory, *memory, *threads, *told, *order.options]
    return [order.python, *words, "--number", number]


def _line(words: Sequence[str]) -> str:
    """For a shell; a word that is a variable stays one."""
    return " ".join(f'"{word}"' if re.fullmatch(r"\$\w+", word) else shlex.quote(word) for word in words)


def _mebibytes(size: int) -> int:
    return math.ceil(size / 2**20)


LAUNCHERS = {
    "slurm": Launcher(
        write=slurm,
        submit=("sbatch",),
        advice="log in where Slurm is, or leave --submit out and take the script there",
    ),
    "k8s": Launcher(
        write=kubernetes,
        submit=("kubectl", "apply", "-f", "-"),
        advice="install it, or leave --submit out and take the manifest to where it is",
    ),
    "ssh": Launcher(write=ssh, submit=("bash", "-s"), advice="leave --submit out and take the script to where it is"),
}
