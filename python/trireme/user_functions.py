"""A user's function, whatever it is for: its parameters, what it is given of them, what it returned and where it failed. What forms
there are is reward_functions.py's and metric_functions.py's."""
from __future__ import annotations

import asyncio
import inspect
import math
import os
import traceback
from typing import Any, Callable, Sequence

SHOWN = 60  # characters of a text in an error
OWN = os.path.dirname(os.path.abspath(__file__))


class FunctionError(Exception):
    """What is wrong with a function or what it returned; the text follows its name: 'raised ValueError: …'."""


def shown(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return repr(text if len(text) <= SHOWN else text[:SHOWN] + "…")


def parameters_of(call: Callable, wanted: str) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(call).parameters.values())
    except (TypeError, ValueError):
        raise FunctionError(f"has no signature that Python knows; {wanted}") from None


def where_in(error: BaseException) -> str:
    """FILE:LINE of the innermost frame of the user's code, which is what the user can mend."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if os.path.dirname(os.path.abspath(frame.filename)) != OWN]
    named = [frame for frame in frames if "site-packages" not in frame.filename and not frame.filename.startswith("<")] or frames
    return f" at {os.path.basename(named[-1].filename)}:{named[-1].lineno}" if named else ""


def raised(error: BaseException) -> str:
    return f"raised {type(error).__name__}: {error}{where_in(error)}"


def made(given: type, *arguments: Any) -> Any:
    """An object of a user's class."""
    try:
        return given(*arguments)
    except Exception as error:
        how = f"with {', '.join(map(repr, arguments))}" if arguments else "without arguments"
        raise FunctionError(f"cannot be made {how}: {type(error).__name__}: {error}{where_in(error)}") from error


def is_given(one: inspect.Parameter, known: Any) -> bool:
    return one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL) or one.default is not one.empty or one.name in known


def accepted(given: dict[str, Any], parameters: Sequence[inspect.Parameter]) -> dict[str, Any]:
    """All of them for **columns, otherwise those that are named."""
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return given
    return {one.name: given[one.name] for one in parameters if one.name in given}


def awaited(value: Any) -> Any:
    return asyncio.run(value) if inspect.iscoroutine(value) else value


def finite(value: Any, about: str, otherwise: str = "") -> float:
    """JSON has neither NaN nor a tensor. `about`: what the value is of, in errors."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise FunctionError(f"returned {shown(value)}{about}; wanted a finite number{otherwise}") from None
    if not math.isfinite(number):
        raise FunctionError(f"returned {number}{about}; wanted a finite number{otherwise}")
    return number
