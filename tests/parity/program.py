"""Starts the program as a user does: alone or under mpirun; many commands in one launch. Knows nothing of what is
compared."""
import collections
import json
import os
import pathlib
import subprocess
import tempfile
import time

BUILD = pathlib.Path(os.environ.get("TRIREME_BUILD", "build")).resolve()
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--quiet",
          "--mca", "mpi_yield_when_idle", "1"]
# For the program alone: where torch_npu can be imported, transformers in this process would import it, too.
TORCH_NPU = {"PYTHONPATH": os.environ["TRIREME_TORCH_NPU"]} if "TRIREME_TORCH_NPU" in os.environ else {}
LAUNCHES = []  # seconds of each, for scripts/test
HANG_SECONDS = 600  # on a loaded host launches that take one minute alone were seen to take six


def words_of(settings):
    """As a command line says them."""
    return [word for setting in settings for word in ("--set", setting)]


def run(ranks, words, settings=(), threads=1, hang_seconds=HANG_SECONDS):
    """Status, stdout and stderr of `trireme WORDS --set SETTING…`; under mpirun where ranks is not None."""
    return start(ranks, [BUILD / "trireme", *words, *words_of(settings)], threads, hang_seconds)


def start(ranks, command, threads=1, hang_seconds=HANG_SECONDS, variables=None, stdin=""):
    """The same for any program, with more environment variables and what stands on its standard input."""
    command = [str(word) for word in command]
    launch = command if ranks is None else [*MPIRUN, "-n", str(ranks), *command]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), **TORCH_NPU, **(variables or {})}
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    began = time.monotonic()
    with subprocess.Popen(launch, env=environment, **pipes) as process:
        try:
            out, err = process.communicate(stdin, timeout=hang_seconds)
        except subprocess.TimeoutExpired:
            process.terminate()  # mpirun then ends its ranks, which a kill would leave behind
            out, err = process.communicate()
            err = f"hung: ended after {hang_seconds} s\n{err}"
    LAUNCHES.append(time.monotonic() - began)
    return subprocess.CompletedProcess(launch, process.returncode, out, err)


def run_many(ranks, commands, variables=None, options=()):
    """Several commands of the program, each its words, one after the other in one launch."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.writelines(json.dumps([str(word) for word in words]) + "\n" for words in commands)
        file.flush()
        return start(ranks, [BUILD / "tests/parity/many_commands", *options, file.name], variables=variables)


def failure_text(result):
    return f"status {result.returncode}: {' '.join(result.args)}\n{result.stdout}{result.stderr}"


def run_well(ranks, words, settings=(), **more):
    """As run(); fails where the program does."""
    result = run(ranks, words, settings, **more)
    assert result.returncode == 0, failure_text(result)
    return result


# What one of many commands left: its line on stdout (None: it has none), its file, and how the launch ended.
Outcome = collections.namedtuple("Outcome", "line out result")


def run_grads(ranks, commands, variables=None):
    """Outcomes of several `grads` commands in one launch; commands without --out, at the end, have none."""
    result = run_many(ranks, commands, variables)
    lines = result.stdout.splitlines()
    outs = [command[command.index("--out") + 1] for command in commands if "--out" in command]
    return [Outcome(json.loads(lines[number]) if number < len(lines) and out.exists() else None, out, result)
            for number, out in enumerate(outs)]


class Launches:
    """Cases by number of ranks, each number in one launch, made when the first of its cases is asked for.
    launch(ranks, cases) gives a list with what each case left. One that fails is not repeated: it fails all its cases."""

    def __init__(self, cases, ranks_of, launch):
        self.launch, self.ranks_of, self.groups, self.left, self.failed = launch, ranks_of, {}, {}, {}
        for case in cases:
            self.groups.setdefault(ranks_of(case), []).append(case)

    def of(self, case):
        ranks = self.ranks_of(case)
        if ranks in self.failed:
            raise AssertionError(f"the launch of {ranks} ranks failed, see the first of its cases") from self.failed[ranks]
        if ranks not in self.left:
            try:
                self.left[ranks] = self.launch(ranks, self.groups[ranks])
            except AssertionError as failure:
                self.failed[ranks] = failure
                raise
        index = next(number for number, other in enumerate(self.groups[ranks]) if other is case)
        return self.left[ranks][index]
