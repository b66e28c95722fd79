# SPDX-License-Identifier: MIT
"""docs/cluster/slurm.sh on a real Slurm, which this test starts and stops: two nodes of one processor each, on this machine.
One task of the array is killed while it is at work, and is queued again."""
import os
import shutil
import socket
import subprocess
import sys
import time
import unittest

from cluster_helper import FILTER, OPTIONS, SOURCE, ClusterTest

PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
PROGRAMS = "munged slurmctld slurmd sbatch scontrol scancel".split()
MISSING = [name for name in PROGRAMS if not shutil.which(name, path=PATH)]

CONFIGURATION = """
ClusterName=gconv
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=bf_interval=1,sched_interval=1
SlurmdParameters=config_overrides
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1 RealMemory=2048
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=1 RealMemory=2048
PartitionName=all Nodes=n1,n2 Default=YES State=UP
"""
TASKS = 8


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Slurm(ClusterTest):
    def environment(self, extra=None):
        return {**super().environment(extra), "SLURM_CONF": f"{self.folder}/slurm/slurm.conf"}

    def start(self, name, *words):
        """Starts a daemon, which ends when this test does, however that ends."""
        log = self.folder / f"{name}.log"
        with open(log, "wb") as file:
            daemon = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *map(str, words)], stdout=file, stderr=file,
                                      env=self.environment(), cwd=self.folder)

        def stop():
            daemon.terminate()
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

        self.addCleanup(stop)
        return log

    def wait_for(self, what, seconds, question):
        end = time.monotonic() + seconds
        while not (answer := question()):
            if time.monotonic() > end:
                logs = "\n".join(f"{log.name}: {log.read_text()[-2000:]}" for log in sorted(self.folder.glob("*.log")))
                self.fail(f"{what} did not happen within {seconds} seconds\n{logs}")
            time.sleep(0.05)
        return answer

    def ask(self, *words):
        return subprocess.run(words, cwd=self.folder, env=self.environment(), text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=False).stdout

    def tasks(self, job):
        """{number of the task: its fields}, as Slurm knows them."""
        lines = self.ask("scontrol", "--oneliner", "show", "job", job).splitlines()
        rows = [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in lines]
        return {int(row["ArrayTaskId"]): row for row in rows if row.get("ArrayTaskId", "").isdigit()}

    def start_slurm(self):
        place = self.folder / "slurm"
        for name in ("munge", "state", "spool-n1", "spool-n2"):
            (place / name).mkdir(parents=True)
        key = place / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        host = socket.gethostname().partition(".")[0]
        (place / "slurm.conf").write_text(CONFIGURATION.format(folder=place, host=host, ports=free_ports(3)))
        self.start("munged", "munged", "--foreground", "--force", "--num-threads=2", f"--key-file={key}",
                   *(f"--{name}={place}/munge/{name[:-5]}" for name in ("pid-file", "log-file", "seed-file")),
                   f"--socket={place}/munge/socket")
        self.wait_for("the start of munge", 20, (place / "munge" / "socket").exists)
        self.start("slurmctld", "slurmctld", "-D")
        for node in "n1", "n2":
            self.start(f"slurmd-{node}", "slurmd", "-D", "-N", node)
        self.wait_for("the start of Slurm", 60, lambda: "idle 2" in self.ask("sinfo", "--noheader", "-o", "%t %D"))

    def outputs_of(self, task):
        """{result of this task: what would change if it were made again}."""
        manifest = self.folder / "results" / f".gconv-manifest-{task}-of-{TASKS}"
        lines = manifest.read_text().splitlines() if manifest.exists() else []
        paths = [self.folder / "results" / line.split("\t")[6] for line in lines if line.count("\t") == 7]
        return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in paths}

    def test_array_of_which_one_task_is_killed_and_queued_again(self):
        self.prepare(80)
        self.start_slurm()
        script = SOURCE / "docs" / "cluster" / "slurm.sh"
        job = self.run_file("sbatch", "--parsable", script, "photos", "results", FILTER, *OPTIONS).strip()

        def at_work():  # it has made some results, and has most before it
            return next((task for task, row in self.tasks(job).items()
                         if row["JobState"] == "RUNNING" and 1 <= len(self.outputs_of(task)) <= 3), None)
        task = self.wait_for("a task at work", 60, at_work)
        self.run_file("scancel", "--signal=KILL", "--batch", f"{job}_{task}")
        self.wait_for("the end of the killed task", 30, lambda: self.tasks(job)[task]["JobState"] == "FAILED")
        before = self.outputs_of(task)
        self.assertLess(len(before), 8)
        self.run_file("scontrol", "requeue", f"{job}_{task}")

        def all_ended():
            states = {row["JobState"] for row in self.tasks(job).values()}
            return not states & {"PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED"}
        self.wait_for("the end of the job", 240, all_ended)
        rows = self.tasks(job)
        logs = {number: (self.folder / f"gconv-{job}-{number}.log").read_text() for number in range(1, TASKS + 1)}
        self.assertEqual({number: row["JobState"] for number, row in rows.items()}, dict.fromkeys(logs, "COMPLETED"), logs)
        self.assertEqual({number for number, row in rows.items() if row["Restarts"] != "0"}, {task})

        self.check_results(TASKS)
        self.assertGreater(len(before), 0)
        after = self.outputs_of(task)
        self.assertEqual(before, {path: after[path] for path in before})  # what was finished was not made again
        self.assertRegex(logs[task], rf"\b{len(before)} results? (was|were) done")
        self.run_file("sbatch", "--wait", "--array=1-1", "--output=whole", script, "photos", "results", FILTER, *OPTIONS)
        self.assertIn("80 results were done, which is all", (self.folder / "whole").read_text())


if __name__ == "__main__":
    if MISSING or os.geteuid() != 0:
        missing = f"there is no {', '.join(MISSING)} here; tests/run --all installs Slurm"
        print("skipped:", missing if MISSING else "the daemons of Slurm need root")
        sys.exit(77)
    unittest.main()
