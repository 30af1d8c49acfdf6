"""Trireme from Python: the program as functions.

    import trireme
    for event in trireme.train("run.yaml", ranks=4):
        print(event["step"], event.get("loss"))

The program runs as a child process with the same numbers as from a shell. Wrong input raises InputError (a ValueError), a failure
RunError (a RuntimeError), each with the program's own message."""
from __future__ import annotations

import importlib

TYPE_CHECKING = False  # editors and type checkers read it as true
if TYPE_CHECKING:
    from .commands import convert, generate, grads, plan
    from .installation import InputError
    from .runs import Run, RunError
    from .runs import Run as train
    from .serving import serve

# Loaded when first used: the command `trireme` passes through here at each start.
_MODULES = {"commands": ("convert", "generate", "grads", "plan"), "installation": ("InputError",),
            "runs": ("Run", "RunError", "train"), "serving": ("serve",)}
__all__ = ["InputError", "Run", "RunError", "convert", "generate", "grads", "plan", "serve", "train"]


def __getattr__(name: str):
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f".{module}", __name__), name)
    raise AttributeError(f"module 'trireme' has no attribute {name!r}")
