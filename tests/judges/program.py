"""Starts the program as a user does: alone or under mpirun. Knows nothing of what is compared."""
import json
import os
import pathlib
import subprocess
import tempfile

BUILD = pathlib.Path(os.environ.get("TRIREME_BUILD", "build")).resolve()
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--quiet",
          "--mca", "mpi_yield_when_idle", "1"]
HANG_SECONDS = 300  # nothing here takes a tenth of that: longer is a hang


def words_of(settings):
    """As command line arguments."""
    return [word for setting in settings for word in ("--set", setting)]


def run(ranks, words, settings=(), threads=1, hang_seconds=HANG_SECONDS):
    """Status, stdout and stderr of `trireme WORDS --set SETTING…`; under mpirun if ranks is not None."""
    return start(ranks, [BUILD / "trireme", *words, *words_of(settings)], threads, hang_seconds)


def start(ranks, command, threads=1, hang_seconds=HANG_SECONDS, variables=None, stdin=""):
    """The same for any program, with additional environment variables and standard input."""
    command = [str(word) for word in command]
    launch = command if ranks is None else [*MPIRUN, "-n", str(ranks), *command]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), **(variables or {})}
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with subprocess.Popen(launch, env=environment, **pipes) as process:
        try:
            out, err = process.communicate(stdin, timeout=hang_seconds)
        except subprocess.TimeoutExpired:
            process.terminate()  # mpirun then ends its ranks, which SIGKILL would leave behind
            out, err = process.communicate()
            err = f"hung: ended after {hang_seconds} s\n{err}"
    return subprocess.CompletedProcess(launch, process.returncode, out, err)


def run_many(ranks, commands, variables=None):
    """Several commands of the program, each its words, run in turn in one launch."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.writelines(json.dumps([str(word) for word in words]) + "\n" for words in commands)
        file.flush()
        return start(ranks, [BUILD / "tests/judges/many_commands", file.name], variables=variables)


def failure_text(result):
    return f"status {result.returncode}: {' '.join(result.args)}\n{result.stdout}{result.stderr}"
