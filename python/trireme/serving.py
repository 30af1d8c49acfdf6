"""serve(): the program's OpenAI-compatible server for the length of a with block."""
from __future__ import annotations

import contextlib
import re
import subprocess
import tempfile
from typing import Any, Iterator, Mapping

from . import installation
from .runs import raise_for, set_words


@contextlib.contextmanager
def serve(model: str, *, port: int = 0, set: Mapping[str, Any] | None = None, **options: Any) -> Iterator[str]:
    """Yields the server's address, such as http://127.0.0.1:40123; further options are those of `trireme serve`, with _ for -."""
    from .commands import option_words
    words = [installation.program(), "serve", "--model", str(model), "--port", str(port), *option_words(options), *set_words(set)]
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        process = subprocess.Popen(words, env=installation.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=said, text=True, errors="replace")
        try:
            yield address_of(process, said)
        finally:
            process.terminate()
            process.stdout.close()
            process.wait()


def address_of(process: subprocess.Popen, said) -> str:
    """The program names it on stdout once it listens."""
    for line in process.stdout:
        if found := re.search(r"https?://[^\s,;]+", line):
            return found[0].rstrip("/.")
    said.seek(0)
    raise_for(process.wait() or 1, said.read().splitlines())
    raise AssertionError("raise_for returned")
