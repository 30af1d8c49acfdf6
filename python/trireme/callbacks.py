"""The user's Python objects as the program takes them: functions of this process as reward functions and metrics, which a worker asks
over a socket (worker.py), and rows as a file of JSON lines."""
from __future__ import annotations

import hashlib
import inspect
import json
import os
import pathlib
import re
import socket
import tempfile
import threading
from typing import Any, Callable, Iterable, Mapping, Sequence

from . import installation
from .user_functions import FunctionError
from .worker import KINDS, Answers, Output, serve


def name_of(function: Any) -> str:
    """For logs: a function's or class's own name."""
    name = getattr(function, "__name__", type(function).__name__)
    return re.sub(r"\W", "_", name).strip("_") or "function"


def file_of(function: Any) -> str:
    try:
        return inspect.getsourcefile(function) or ""
    except TypeError:
        return ""


class FunctionServer:
    """Functions of this process, as elements of rl.rewards and eval.metrics. They run here, in a thread: a function may use whatever it
    sees."""

    def __init__(self, folder: str):
        self._path = os.path.join(folder, "functions")
        self._functions: dict[tuple[str, str], Any] = {}
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self._path)
        self._listener.listen()
        self.last_error: BaseException | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    def element(self, kind: str, function: Any) -> str:
        """Its element of the list. A function of no known form is refused now."""
        name = name_of(function)
        while (kind, name) in self._functions:
            name += "_"
        try:
            KINDS[kind](function, name)
        except FunctionError as error:
            raise installation.InputError(f"{kind}s: {name} {error}") from error.__cause__
        self._functions[kind, name] = function
        return f"python:{self._path}:{name}"

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                end, _ = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._answer, args=[end], daemon=True).start()

    def _answer(self, end: socket.socket) -> None:
        with end, end.makefile("rwb") as stream:
            kind, name, seconds = json.loads(stream.readline())
            function = self._functions[kind, name]
            answers = Answers(kind, name, lambda: function)

            def kept(line: bytes) -> dict[str, Any]:
                answer = answers(line)
                self.last_error = answer.get("cause") or self.last_error
                return answer

            try:
                serve(stream, Output(stream), kept, file_of(function), (kind, seconds), lambda: end.shutdown(socket.SHUT_RDWR))
            except (OSError, ValueError):  # the program has ended, or asks anew
                pass


FUNCTION_KEYS = {"rl.rewards": "reward", "eval.metrics": "metric"}


def has_function(given: Any) -> bool:
    return any(map(callable, given)) if isinstance(given, (list, tuple)) else callable(given)


class Functions:
    """The functions of this process that a run asks; they are served from the first one on."""

    def __init__(self, folder: str):
        self._folder = folder
        self._server: FunctionServer | None = None

    def elements(self, key: str, given: Any) -> list[Any]:
        """The list of a key from functions and classes; what else it has means what it means in RUN.yaml."""
        return [self._element(key, one) for one in (given if isinstance(given, (list, tuple)) else [given])]

    def _element(self, key: str, one: Any) -> Any:
        if isinstance(one, (str, Mapping)):
            return one
        if self._server is None:
            self._server = FunctionServer(self._folder)
        return self._server.element(FUNCTION_KEYS[key], one)

    def in_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The same, wherever a configuration has such a key with a function."""
        result = dict(config)
        for key in FUNCTION_KEYS:
            section, _, name = key.partition(".")
            if isinstance(result.get(section), Mapping) and has_function(result[section].get(name)):
                result[section] = {**result[section], name: self.elements(key, result[section][name])}
            if has_function(result.get(key)):
                result[key] = self.elements(key, result[key])
        return result

    @property
    def last_error(self) -> BaseException | None:
        return self._server.last_error if self._server else None

    def close(self) -> None:
        if self._server:
            self._server.close()


def plain(value: Any) -> Any:
    """What JSON does not know but has a plain form: arrays, tensors, paths."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"a value of type {type(value).__name__}")


def rows_folder() -> pathlib.Path:
    """Named by their contents, so that a run that is resumed finds the same file."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(cache, "trireme", "rows")


def rows_file(name: str, rows: Iterable[Mapping[str, Any]]) -> str:
    """A file of JSON lines with the rows of any iterable, which is read to its end; it is kept, under a name made of its contents."""
    folder = rows_folder()
    digest, number, path = hashlib.sha256(), 0, None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("wb", dir=folder, suffix=".part", delete=False) as file:
            path = file.name
            for number, row in enumerate(rows, 1):
                line = json.dumps(row, default=plain, ensure_ascii=False, allow_nan=False).encode() + b"\n"
                digest.update(line)
                file.write(line)
        if number == 0:
            raise installation.InputError(f"{name}: has no rows; wanted an iterable of dicts")
        final = str(folder / f"{digest.hexdigest()[:32]}.jsonl")
        os.replace(path, final)
        return final
    except (TypeError, ValueError) as error:
        if isinstance(error, installation.InputError):
            raise
        raise installation.InputError(f"{name}: row {number} cannot be written as JSON: {error}; wanted dicts of texts, numbers and "
                                      "lists") from error
    except OSError as error:
        raise installation.InputError(f"{name}: the rows cannot be written to {folder}: {error.strerror}; make room there, or set "
                                      "XDG_CACHE_HOME to another folder") from error
    finally:
        if path and os.path.exists(path):
            os.unlink(path)


def data_files(name: str, given: Any) -> list[str]:
    """data.train or data.valid: a path or several, as in RUN.yaml, or rows."""
    if isinstance(given, (str, os.PathLike)):
        return [os.fspath(given)]
    if isinstance(given, Sequence) and given and all(isinstance(one, (str, os.PathLike)) for one in given):
        return [os.fspath(one) for one in given]
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise installation.InputError(f"{name} is {type(given).__name__}; wanted paths, or an iterable of rows, a dict each")
    return [rows_file(name, given)]


def callbacks_of(given: Mapping[str, Callable | None]) -> dict[str, Callable]:
    for name, function in given.items():
        if function is not None and not callable(function):
            raise installation.InputError(f"{name} is {function!r}; wanted a function that takes an event, a dict")
    return {name: function for name, function in given.items() if function is not None}
