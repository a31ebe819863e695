"""Jobs that start workers through a cluster's own scheduler: a Slurm job array, a Kubernetes Indexed Job, ssh. Each job
is a text that runs a command several times: `genepool worker` for an experiment, with numbers from 0, or `genepool
study` for a study, whose tasks divide the experiments. It contains no secrets: clusters take credentials from their own
files, or from the environment of the user who submits the job.
"""

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

from genepool.errors import EngineError, SettingsError, StorageError, shown
from genepool.workers.pool import STOPPED

NOTICE = 90  # seconds between the request to stop and the end of a worker: enough for a checkpoint


class LaunchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks that a scheduler is to start: workers of an experiment, or drivers of a study."""

    directory: str  # the experiment or study; it has the same path wherever they run
    words: tuple[str, ...]  # the arguments of `genepool` that all of them have in common
    numbered: bool  # whether a task also has its number as an argument
    tasks: int
    cpus: int = 1  # cores per task
    gpus: float = 0.0  # GPUs per task
    memory: int | None = None  # bytes per task
    seconds: int | None = None  # the scheduler ends and requeues a task after this time
    python: str = sys.executable
    hosts: tuple[str, ...] = ()
    image: str = ""
    claim: str = ""

    def __post_init__(self) -> None:
        if self.tasks < 1 or self.cpus < 1 or self.gpus < 0:
            raise SettingsError("--workers and --cpus-per-worker must be at least 1; --gpus-per-worker at least 0.")
        if not all(text.isprintable() for text in self.words):
            raise SettingsError(f"'{shown(self.directory)}' cannot be written in a script; rename the directory.")

    @property
    def name(self) -> str:
        """The job's name, in letters, digits and dashes as all schedulers accept them."""
        return f"genepool-{re.sub('[^a-z0-9]+', '-', Path(self.directory).name.lower()).strip('-')[:40] or 'run'}"

    def integer_gpus(self, scheduler: str) -> int:
        """The GPUs per task, for schedulers that do not share a GPU between jobs."""
        if self.gpus != math.floor(self.gpus):
            raise SettingsError(
                f"{scheduler} assigns integer numbers of GPUs, not {self.gpus:g}; use 0 or 1, or share GPUs with Ray."
            )
        return int(self.gpus)


class Launcher(msgspec.Struct, frozen=True):
    """One scheduler: the function that writes its jobs, and the program that reads them from standard input."""

    write: Callable[[LaunchRequest], str]
    submit: tuple[str, ...]
    advice: str


def write_job(scheduler: str, request: LaunchRequest, out: Path | None = None) -> str:
    """Return the job for a scheduler, and write it to a file if one is given."""
    text = LAUNCHERS[scheduler].write(request)
    try:
        (Path(request.directory) / "logs").mkdir(exist_ok=True)  # Slurm does not create the folder of its logs
        if out is not None:
            out.write_text(text)
    except OSError as error:
        raise StorageError(f"'{error.filename}' cannot be written: {error.strerror}.") from None
    return text


def submit(scheduler: str, text: str) -> str:
    """Submit a job and return what the scheduler printed."""
    launcher = LAUNCHERS[scheduler]
    program = launcher.submit[0]
    if shutil.which(program) is None:
        raise EngineError(f"The program '{program}' is not installed here; {launcher.advice}.")
    done = subprocess.run(launcher.submit, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        words = shown((done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1])
        raise EngineError(f"'{program}' refused: {words.rstrip('.')}.")
    return done.stdout.strip()


# -- Slurm -------------------------------------------------------------------------------------------------------------


_ENDED = 128 + signal.SIGTERM  # the exit code of a worker that received SIGTERM before it had a handler
# srun, because Slurm signals the steps of a job before it ends it, not its script: the script outlives its worker and
# requeues the job, which Slurm itself does not do for a job that ends within the grace time before a pre-emption.
# Cancelling the job ends the script as well.
_SLURM = """# A worker that was stopped continues elsewhere; one that died is started again here.
while :; do
  {command}
  code=$?
  case $code in
    0 | 2) exit $code ;;
    {stopped} | {ended})
      scontrol requeue "$SLURM_ARRAY_JOB_ID"_"$SLURM_ARRAY_TASK_ID"
      exit $code ;;
  esac
  sleep 10
done
"""


def slurm(request: LaunchRequest) -> str:
    """A job array. Slurm requeues a job that is pre-empted or whose node is lost."""
    gpus = request.integer_gpus("Slurm")
    log = f"{request.directory}/logs/slurm-".replace("%", "%%")
    options = [
        f"--job-name={request.name}",
        f"--array=0-{request.tasks - 1}",
        "--ntasks=1",
        f"--cpus-per-task={request.cpus}",
        *([f"--gres=gpu:{gpus}"] if gpus else []),
        *([f"--mem={_mebibytes(request.memory)}M"] if request.memory else []),
        *([f"--time={_slurm_time(request.seconds)}", f"--signal=TERM@{NOTICE}"] if request.seconds else []),
        "--requeue",
        "--open-mode=append",
        f'--output="{log}%A-%a.log"',
    ]
    command = _line(["srun", *_task(request, number="$SLURM_ARRAY_TASK_ID")])
    script = _SLURM.format(command=command, stopped=STOPPED, ended=_ENDED)
    return "\n".join(["#!/bin/bash", *(f"#SBATCH {line}" for line in options), "", script])


def _slurm_time(seconds: int) -> str:
    minutes = max(math.ceil(seconds / 60), math.ceil(2 * NOTICE / 60))
    return f"{minutes // 1440}-{minutes % 1440 // 60:02d}:{minutes % 60:02d}:00"


# -- Kubernetes --------------------------------------------------------------------------------------------------------

_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"  # the pod's number within its job


def kubernetes(request: LaunchRequest) -> str:
    """An Indexed Job on a shared volume. An evicted pod is started again and takes over the next training."""
    if not request.image or not request.claim:
        raise SettingsError(
            "Kubernetes needs --image (which contains Genepool) and --claim (a volume that the pods share)."
        )
    gpus = request.integer_gpus("Kubernetes")
    command = ["python", *_task(request, number="$(WORKER)")[1:]]
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    if request.memory:
        limits["memory"] = f"{_mebibytes(request.memory)}Mi"
    container = {
        "name": "worker",
        "image": request.image,
        "command": command,
        "env": [
            {"name": "WORKER", "valueFrom": {"fieldRef": {"fieldPath": _INDEX}}},
            {"name": "OMP_NUM_THREADS", "value": "1"},
        ],
        "resources": {"requests": {"cpu": str(request.cpus), **limits}, **({"limits": limits} if limits else {})},
        "volumeMounts": [{"name": "experiment", "mountPath": str(Path(request.directory).parent)}],
    }
    codes = {"containerName": "worker", "operator": "In"}
    spec = {
        "completionMode": "Indexed",
        "completions": request.tasks,
        "parallelism": request.tasks,
        "backoffLimitPerIndex": 1000,
        "podFailurePolicy": {
            "rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                {"action": "Ignore", "onExitCodes": {**codes, "values": [STOPPED]}},
                {"action": "FailJob", "onExitCodes": {**codes, "values": [2]}},
            ]
        },
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": NOTICE,
                "containers": [container],
                "volumes": [{"name": "experiment", "persistentVolumeClaim": {"claimName": request.claim}}],
            }
        },
    }
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": request.name}, "spec": spec}
    return "\n".join(_yaml(job, 0)) + "\n"


def _yaml(value: object, depth: int) -> list[str]:
    """Write JSON values as block-style YAML; strings stay in quotes, so none is taken for another type."""
    if not (isinstance(value, dict | list) and value):
        return [json.dumps(value)]
    indent = "  " * depth
    lines: list[str] = []
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        first, *rest = _yaml(inner, depth + 1)
        if isinstance(value, list):
            lines += [f"{indent}- {first.strip()}", *rest]
        elif isinstance(inner, dict | list) and inner:
            lines += [f"{indent}{key}:", first, *rest]
        else:
            lines += [f"{indent}{key}: {first}"]
    return lines


# -- ssh ---------------------------------------------------------------------------------------------------------------

_SSH = """#!/bin/bash
# Starts {tasks} tasks over ssh and restarts those that die; `bash FILE stop` stops them.
# Uses your own ssh keys and settings, without prompting.
hosts=({hosts})
for number in $(seq 0 {last}); do
  host=${{hosts[$((number % ${{#hosts[@]}}))]}}
  note={logs}/ssh-$number
  if [ "$1" = stop ]; then
    ssh -n -o BatchMode=yes "$host" "kill -TERM \\$(cat '$note.pid')"
  else
    ssh -n -o BatchMode=yes "$host" "nohup setsid sh -c {loop} $number '$note' >> '$note.log' 2>&1 < /dev/null &"
  fi || echo "task $number: ssh to $host failed" >&2
done
"""
_LOOP = """echo $$ > "$1.pid"
trap "stopped=1; kill -TERM \\$worker" TERM
while :; do
  {command} &
  worker=$!
  wait $worker
  code=$?
  [ -n "$stopped" ] && wait $worker && exit
  [ -n "$stopped" ] || [ $code = 0 ] || [ $code = 2 ] && exit $code
  sleep 10
done"""


def ssh(request: LaunchRequest) -> str:
    """A script that starts and stops workers on hosts that see the same directory."""
    if not request.hosts:
        raise SettingsError("ssh needs --hosts, like --hosts node1,node2.")
    if any(host.startswith("-") for host in request.hosts):
        raise SettingsError(f"'{shown(min(request.hosts))}' is not a host name.")
    if "'" in request.directory:
        raise SettingsError(f"'{shown(request.directory)}' cannot be written in a script; rename the directory.")
    if request.gpus:
        raise SettingsError("ssh does not assign GPUs; leave --gpus-per-worker out: workers use a host's GPUs in turn.")
    loop = _LOOP.format(command=_line(_task(request, number="$0")))
    return _SSH.format(
        tasks=request.tasks,
        last=request.tasks - 1,
        hosts=shlex.join(request.hosts),
        logs=shlex.quote(f"{request.directory}/logs"),
        # Quoted for the host's shell, and escaped because the script has it between double quotes.
        loop=re.sub(r'([\\"$`])', r"\\\1", shlex.quote(loop)),
    )


# -- all of them -------------------------------------------------------------------------------------------------------


def _task(request: LaunchRequest, number: str) -> list[str]:
    own = ["--exit-code-on-stop", str(STOPPED), *(["--number", number] if request.numbered else [])]
    return [request.python, "-m", "genepool", *request.words, *own]


def _line(words: Sequence[str]) -> str:
    """Words as a shell reads them; a shell variable stays one."""
    return " ".join(f'"{word}"' if re.fullmatch(r"\$\w+", word) else shlex.quote(word) for word in words)


def _mebibytes(size: int) -> int:
    return math.ceil(size / 2**20)


_THERE = "log in to a machine with Slurm, or leave --submit out and submit the script there"
_ELSEWHERE = "install it, or leave --submit out and apply the manifest elsewhere"
LAUNCHERS = {
    "slurm": Launcher(slurm, ("sbatch",), _THERE),
    "k8s": Launcher(kubernetes, ("kubectl", "apply", "-f", "-"), _ELSEWHERE),
    "ssh": Launcher(ssh, ("bash", "-s"), "leave --submit out and run the script elsewhere"),
}
