"""serve(): the program's OpenAI-compatible server for the length of a with block."""
from __future__ import annotations

import collections
import contextlib
import re
import subprocess
import threading
from typing import Any, Iterator, Mapping

from . import installation
from .runs import KEPT_LINES, raise_for, set_words


@contextlib.contextmanager
def serve(model: str, *, port: int = 0, set: Mapping[str, Any] | None = None, **options: Any) -> Iterator[str]:
    """Yields the address that clients of OpenAI's API take as base_url, such as http://127.0.0.1:40123/v1; further options are those
    of `trireme serve`, with _ for -."""
    from .commands import option_words
    words = [installation.program(), "serve", "--model", str(model), "--port", str(port), *option_words(options), *set_words(set)]
    process = subprocess.Popen(words, env=installation.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True, errors="replace")
    try:
        yield Notices(process).address()
    finally:
        process.terminate()
        process.wait()
        process.stderr.close()


class Notices:
    """What the server writes to stderr, read at once, so that it never waits for this process."""

    def __init__(self, process: subprocess.Popen):
        self._process = process
        self._last: collections.deque[str] = collections.deque(maxlen=KEPT_LINES)
        self._address: str | None = None
        self._known = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(ValueError):  # closed
            for line in self._process.stderr:
                self._last.append(line.rstrip("\n"))
                found = None if self._known.is_set() else re.search(r" serves .* at (https?://[^\s,;]+)", line)
                if found:
                    self._address = found[1]
                    self._known.set()
        self._known.set()

    def address(self) -> str:
        """The program names it once it listens; its error if it never does."""
        self._known.wait()
        if self._address is None:
            raise_for(self._process.wait() or 1, self._last)
        return self._address
