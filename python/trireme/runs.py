"""A training as a child process: what it logs, how it is stopped, how it ended. The program does the work, so its numbers are the
same as from a shell, a crash leaves this process alive, and memory is given back at the end."""
from __future__ import annotations

import collections
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
from typing import Any, Iterator, Mapping, Sequence

from . import installation

KEPT_LINES = 200  # of stderr, for the message of an error


class RunError(RuntimeError):
    """The program failed at run time; the text is its message. The program's exit status 1, or a signal."""


def set_words(values: Mapping[str, Any] | None) -> list[str]:
    """{"run.steps": 4} as --set run.steps=4; JSON is YAML."""
    pairs = ((key, value if isinstance(value, str) else json.dumps(value)) for key, value in (values or {}).items())
    return [word for key, value in pairs for word in ("--set", f"{key}={value}")]


def raise_for(status: int, lines: Sequence[str]) -> None:
    if status == 0:
        return
    text = "\n".join(line for line in lines if line.strip()) or f"exit status {status}, and no message"
    raise installation.InputError(text) if status == 2 else RunError(text)


def command(ranks: int, words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The program by itself, or under scripts/run.sh's mpirun, with its environment."""
    variables = {**installation.environment(), "TRIREME": installation.program()}
    if not isinstance(ranks, int) or ranks < 1:
        raise installation.InputError(f"ranks is {ranks!r}; wanted a number of ranks, such as 8")
    if ranks == 1:
        return [variables["TRIREME"], "train", *words], variables
    variables["NPROC_PER_NODE"] = str(ranks)
    return ["bash", str(installation.scripts() / "run.sh"), *words], variables


class Run:
    """A training that was started by train(). Iterate over it for what log.jsonl gets, as it is logged: a dict per logged step or
    evaluation. An error of the program is raised at the end of the iteration."""

    def __init__(self, config: Mapping[str, Any] | str | os.PathLike, ranks: int = 1, set: Mapping[str, Any] | None = None):
        self._folder = tempfile.TemporaryDirectory(prefix="trireme-")
        path = str(config) if not isinstance(config, Mapping) else self._write(config)
        words, variables = command(ranks, [path, "--report", "json", *set_words(set)])
        self._said: collections.deque[str] = collections.deque(maxlen=KEPT_LINES)
        self._process = subprocess.Popen(words, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _write(self, config: Mapping[str, Any]) -> str:
        path = pathlib.Path(self._folder.name, "run.yaml")
        path.write_text(json.dumps(config, indent=1))
        return str(path)

    def _listen(self) -> None:
        for line in self._process.stderr:
            self._said.append(line.rstrip("\n"))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for line in self._process.stdout:
            if line.startswith("{"):
                yield json.loads(line)
        self._end()

    def _end(self) -> None:
        status = self._process.wait()
        self._listener.join()
        self._folder.cleanup()
        raise_for(status, self._said)

    def wait(self) -> list[dict[str, Any]]:
        """All events that were not read yet, once the run has ended."""
        return list(self)

    def stop(self) -> None:
        """Asks the run to save after its current step and to end; the iteration then ends without an error."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGUSR1)

    @property
    def messages(self) -> list[str]:
        """The last lines that the program wrote to stderr."""
        return list(self._said)

    def __enter__(self) -> Run:  # stops a run that is left early
        return self

    def __exit__(self, kind, error, trace) -> None:
        self.stop()
        for _ in self._process.stdout:
            pass
        self._process.wait()


train = Run
