"""A training as a child process: what it logs, how it is stopped, how it ended. The program does the work, so its numbers are the
same as from a shell, a crash leaves this process alive, and memory is given back at the end."""
from __future__ import annotations

import collections
import json
import os
import pathlib
import queue
import signal
import subprocess
import tempfile
import threading
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

from . import installation

KEPT_LINES = 200  # of stderr, for the message of an error

Event = dict[str, Any]


class RunError(RuntimeError):
    """The program failed at run time; the text is its message. The program's exit status 1, or a signal."""


def set_words(values: Mapping[str, Any] | None) -> list[str]:
    """{"run.steps": 4} as --set run.steps=4; JSON is YAML."""
    pairs = ((key, value if isinstance(value, str) else json.dumps(value)) for key, value in (values or {}).items())
    return [word for key, value in pairs for word in ("--set", f"{key}={value}")]


def raise_for(status: int, lines: Sequence[str], cause: BaseException | None = None) -> None:
    if status == 0:
        return
    text = "\n".join(line for line in lines if line.strip()) or f"exit status {status}, and no message"
    raise (installation.InputError(text) if status == 2 else RunError(text)) from cause


def command(ranks: int, words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The program by itself, or under scripts/run.sh's mpirun, with its environment."""
    variables = {**installation.environment(), "TRIREME": installation.program()}
    if not isinstance(ranks, int) or ranks < 1:
        raise installation.InputError(f"ranks is {ranks!r}; wanted a number of ranks, such as 8")
    if ranks == 1:
        return [variables["TRIREME"], "train", *words], variables
    variables["NPROC_PER_NODE"] = str(ranks)
    return ["bash", str(installation.scripts() / "run.sh"), *words], variables


def kinds_of(event: Event) -> list[str]:
    """Which callbacks an event is for."""
    if "checkpoint" in event:
        return ["on_save"]
    return ["on_step", "on_evaluation"] if "eval_loss" in event else ["on_step"]


class Run:
    """A training that was started by train(). Iterate over it for its events, a dict each: a logged step as log.jsonl has it, with
    the evaluation after it, or {"step", "checkpoint"} for a checkpoint that is complete. An error of the program, or of a
    callback, is raised at the end of the iteration.

    rewards: elements of rl.rewards: functions of TRL's, ms-swift's or verl's form, and texts as in RUN.yaml.
    metrics: elements of eval.metrics: f(predictions, references, **columns), transformers' or ms-swift's form, and texts as there.
    Either may be in config and set, too.
    data, valid: rows (any iterable of dicts, read to its end first) or paths, as data.train and data.valid.
    on_step, on_evaluation, on_save: called with each such event, in a thread of their own: the run does not wait for them."""

    def __init__(self, config: Mapping[str, Any] | str | os.PathLike, ranks: int = 1, set: Mapping[str, Any] | None = None, *,
                 rewards: Callable | str | Sequence[Callable | str] | None = None,
                 metrics: Callable | str | Sequence[Callable | str] | None = None,
                 data: Iterable[Mapping[str, Any]] | str | Sequence[str] | None = None,
                 valid: Iterable[Mapping[str, Any]] | str | Sequence[str] | None = None,
                 on_step: Callable[[Event], Any] | None = None, on_evaluation: Callable[[Event], Any] | None = None,
                 on_save: Callable[[Event], Any] | None = None):
        from . import callbacks
        self._callbacks = callbacks.callbacks_of({"on_step": on_step, "on_evaluation": on_evaluation, "on_save": on_save})
        self._callback_error: BaseException | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="trireme-")
        self._functions = callbacks.Functions(self._folder.name)
        set = self._functions.in_config(set or {})
        for key, given in (("data.train", data), ("data.valid", valid)):
            if given is not None:
                set[key] = callbacks.data_files(key.replace("data.train", "data").replace("data.valid", "valid"), given)
        for key, given in (("rl.rewards", rewards), ("eval.metrics", metrics)):
            if given is not None:
                set[key] = self._functions.elements(key, given)
        path = os.fspath(config) if not isinstance(config, Mapping) else self._write(self._functions.in_config(config))
        self._start(*command(ranks, [path, "--report", "events", *set_words(set)]))

    def _write(self, config: Mapping[str, Any]) -> str:
        path = pathlib.Path(self._folder.name, "run.yaml")
        path.write_text(json.dumps(config, indent=1))
        return str(path)

    def _start(self, words: Sequence[str], variables: Mapping[str, str]) -> None:
        self._said: collections.deque[str] = collections.deque(maxlen=KEPT_LINES)
        self._process = subprocess.Popen(words, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True)
        self._called: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._listen, self._read, self._call)]
        for thread in self._threads:
            thread.start()

    def _listen(self) -> None:
        for line in self._process.stderr:
            self._said.append(line.rstrip("\n"))

    def _read(self) -> None:
        """At once, so that the program never waits for this process."""
        for line in self._process.stdout:
            if line.startswith("{"):
                self._called.put(json.loads(line))
        self._called.put(None)

    def _call(self) -> None:
        while (event := self._called.get()) is not None:
            try:
                for kind in kinds_of(event) if self._callback_error is None else []:
                    self._callbacks.get(kind, lambda event: None)(event)
            except BaseException as error:
                self._callback_error = error
                self.stop()
            self._events.put(event)
        self._events.put(None)

    def __iter__(self) -> Iterator[Event]:
        try:
            while (event := self._events.get()) is not None:
                yield event
        except KeyboardInterrupt:  # as at a shell: it saves and ends
            self.stop()
            raise
        self._events.put(None)  # for whoever iterates again
        self._end()

    def _end(self) -> None:
        status = self._process.wait()
        for thread in self._threads:
            thread.join()
        self._close()
        if self._callback_error is not None:
            raise self._callback_error
        raise_for(status, self._said, self._functions.last_error if status != 0 else None)

    def _close(self) -> None:
        self._functions.close()
        self._folder.cleanup()

    def wait(self) -> list[Event]:
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
        self._process.wait()
        for thread in self._threads:
            thread.join()
        self._close()


train = Run
