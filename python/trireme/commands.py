"""Commands of the program that end by themselves, as functions. An option is a keyword with _ for -: max_new_tokens=8."""
from __future__ import annotations

import json
import os
import subprocess
import tempfile
from typing import Any, Mapping, Sequence

from . import installation
from .runs import raise_for, set_words


def option_words(options: Mapping[str, Any]) -> list[str]:
    """True is an option without a value, a list one that is repeated; None and False are left out."""
    words = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if each is True:
                words.append(flag)
            elif each is not None and each is not False:
                words += [flag, str(each)]
    return words


def call(name: str, options: Mapping[str, Any], set: Mapping[str, Any] | None = None) -> str:
    """What the command prints; InputError or RunError with its message if it fails."""
    words = [installation.program(), name, *option_words(options), *set_words(set)]
    done = subprocess.run(words, env=installation.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          errors="replace")
    raise_for(done.returncode, done.stderr.splitlines())
    return done.stdout


def json_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def with_file(name: str, key: str, lines: Sequence[str], options: dict[str, Any], set: Mapping[str, Any] | None) -> str:
    with tempfile.TemporaryDirectory(prefix="trireme-") as folder:
        path = os.path.join(folder, "input.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        return call(name, {**options, key: path}, set)


def generate(model: str, *, messages: Sequence | None = None, rows: Sequence[Mapping[str, Any]] | None = None,
             prompt: str | None = None, set: Mapping[str, Any] | None = None, **options: Any) -> list[dict[str, Any]] | str:
    """Completions of conversations (messages: one list of {"role", "content"}, or a list of such lists) or of token rows (rows:
    {"input_ids": […]}), a dict each; of a prompt, its text."""
    options = {"model": model, **options}
    if sum(given is not None for given in (messages, rows, prompt)) != 1:
        raise installation.InputError("generate: wanted one of messages, rows and prompt")
    if prompt is not None:
        return call("generate", {**options, "prompt": prompt}, set)
    if rows is not None:
        return json_lines(with_file("generate", "rows", [json.dumps(row) for row in rows], options, set))
    several = messages if messages and isinstance(messages[0], (list, tuple)) else [messages]
    return json_lines(with_file("generate", "messages", [json.dumps(several)], options, set))


def grads(model: str, rows: Sequence[Mapping[str, Any]], out: str, *, set: Mapping[str, Any] | None = None,
          **options: Any) -> dict[str, Any]:
    """Writes the gradients of the rows' loss to `out` (.safetensors); returns {"loss", "tokens", …}."""
    text = with_file("grads", "rows", [json.dumps(row) for row in rows], {"model": model, "out": out, **options}, set)
    return json_lines(text)[0]


def convert(source: str, to: str, **options: Any) -> None:
    """Between a Hugging Face directory and a checkpoint, either way."""
    call("convert", {"from": source, "to": to, **options})


def plan(world: int, on: str | None = None, *, set: Mapping[str, Any] | None = None, **options: Any) -> dict[str, Any] | list[dict[str, Any]]:
    """The layout over `world` ranks; with on= a device, the time of a step; with search=True the fastest layouts, a list."""
    text = call("plan", {"world": world, "on": on, "json": True, **options}, set)
    found = json_lines(text)
    return found if options.get("search") else found[0]
