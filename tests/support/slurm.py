"""A whole Slurm of one node, from Debian's packages, in a folder of its own: controller, node and authentication."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from pathlib import Path

from tests.support.debian_packages import PATH
from tests.support.processes import wait_until

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "scontrol", "squeue", "munged")
PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")

CONFIGURATION = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={root}/munge.socket
SlurmctldPort={port}
SlurmdPort={next_port}
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
ReturnToService=2
KillWait=2
SchedulerParameters=sched_interval=1
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=low Nodes=ALL Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=15 MaxTime=INFINITE State=UP
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF MaxTime=INFINITE State=UP
"""


class Slurm:
    """The daemons, from entry to exit."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environment = {**os.environ, "PATH": PATH, "SLURM_CONF": str(root / "slurm.conf")}
        self._daemons: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Slurm:
        try:
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _begin(self) -> None:
        for name in ("state", "spool"):
            (self.root / name).mkdir(parents=True)
        port = _free_port()
        host = socket.gethostname().split(".")[0]
        text = CONFIGURATION.format(root=self.root, host=host, port=port, next_port=port + 1)
        (self.root / "slurm.conf").write_text(text)
        key = self.root / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        places = [f"--{kind}={self.root}/munge.{kind.split('-')[0]}" for kind in ("socket", "pid-file", "log-file")]
        seed = f"--seed-file={self.root}/munge.seed"
        self._start("munged", "--foreground", "--force", f"--key-file={key}", *places, seed)
        wait_until(lambda: (self.root / "munge.socket").exists())
        self._start("slurmctld", "-D", "-f", str(self.root / "slurm.conf"))
        self._start("slurmd", "-D", "-f", str(self.root / "slurm.conf"))
        wait_until(lambda: "idle" in self.run("sinfo", "-h", "-o", "%T"))

    def _start(self, *command: str) -> None:
        with (self.root / f"{command[0]}.said").open("wb") as words:
            self._daemons.append(subprocess.Popen(command, env=self.environment, stdout=words, stderr=words))

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(subprocess.SubprocessError):
            self.run("scancel", "-u", "root", "--signal=KILL", "--full")
            self.run("scancel", "-u", "root")
        for daemon in reversed(self._daemons):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def run(self, *command: str) -> str:
        """What a command of Slurm's says, errors included."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False, timeout=180)
        return done.stdout + done.stderr

    def start_soon(self, *jobs: str) -> None:
        """Lets requeued jobs begin, which Slurm by itself lets wait for two minutes.

        Not at once: in the second in which it ended, a node takes the job for the one that it has just seen end.
        """
        for job in jobs:
            self.run("scontrol", "release", job)
            self.run("scontrol", "update", f"JobId={job}", "StartTime=now+4")

    def words(self) -> str:
        """The ends of the daemons' logs, for a message."""
        return "\n".join(
            f"{path.name}: {path.read_text(errors='replace')[-1500:]}"
            for path in (*self.root.glob("*.log"), *self.root.glob("*.said"))
        )


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
