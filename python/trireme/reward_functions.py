"""Reward functions as people have them, told apart by their parameters: TRL's functions, ms-swift's ORM classes, verl's
compute_score. From the program's question about completions to a number for each, or an error that names the function, its line
and the record. Knows no process and no file; those are worker.py's and callbacks.py's."""
from __future__ import annotations

import inspect
from typing import Any, Callable, Sequence

from .user_functions import FunctionError, accepted, awaited, finite, is_given, made, parameters_of, raised, shown

WANTED = ("wanted f(prompts, completions, **columns) as TRL's, a class with __call__(self, completions, **columns) as ms-swift's ORM, "
          "or compute_score(data_source, solution_str, ground_truth, extra_info) as verl's")
NOT_COLUMNS = ("prompt", "completion")  # TRL passes these as prompts and completions


def messages_of(record: dict[str, Any]) -> list | None:
    """The conversation that a record asks to continue, if it is one."""
    for key in ("prompt", "messages"):
        found = record.get(key)
        if isinstance(found, list) and found and isinstance(found[0], dict):
            return found[:-1] if found[-1].get("role") == "assistant" else found
    return None


def prompt_of(asked: dict[str, Any]) -> Any:
    """As in the record: messages, or a text; otherwise the text that the model read."""
    record = asked["columns"]
    given = messages_of(record) or record.get("prompt")
    return given if given is not None else asked["prompt"]


class Lists:
    """TRL's and ms-swift's form: all completions in one call, a list for each column."""

    def __init__(self, call: Callable, of_messages: bool):
        self._call, self._of_messages = call, of_messages
        self._parameters = parameters_of(call, WANTED)

    def _columns(self, asked: Sequence[dict[str, Any]]) -> dict[str, list]:
        found: dict[str, list] = {"prompts": [prompt_of(one) for one in asked], "completions": [self._completion(one) for one in asked]}
        names = {name: None for one in asked for name in one["columns"] if name not in NOT_COLUMNS}
        found.update({name: [one["columns"].get(name) for one in asked] for name in names if name not in found})
        for name in ("prompt_ids", "completion_ids"):
            found.setdefault(name, [one[name] for one in asked])
        return found

    def _completion(self, one: dict[str, Any]) -> Any:
        """A conversation's is a message to TRL's functions, a text to ms-swift's."""
        if self._of_messages and messages_of(one["columns"]) is not None:
            return [{"role": "assistant", "content": one["completion"]}]
        return one["completion"]

    def check(self, record: dict[str, Any]) -> None:
        known = {"prompts", "completions", "prompt_ids", "completion_ids", *record} - set(NOT_COLUMNS)
        refuse_missing(self._parameters, known, record)

    def __call__(self, asked: Sequence[dict[str, Any]]) -> Sequence[Any]:
        return values_in(self._call(**accepted(self._columns(asked), self._parameters)), len(asked))


class Scores:
    """verl's form: one completion per call, with what verl's own columns hold."""

    def __init__(self, call: Callable):
        self._call = call
        self._parameters = parameters_of(call, WANTED)

    def check(self, record: dict[str, Any]) -> None:
        refuse_missing(self._parameters, {"data_source", "solution_str", "ground_truth", "extra_info"}, record)
        self._truth(record)

    @staticmethod
    def _truth(record: dict[str, Any]) -> Any:
        model = record.get("reward_model")
        if isinstance(model, dict) and "ground_truth" in model:
            return model["ground_truth"]
        for key in ("ground_truth", "solution"):
            if key in record:
                return record[key]
        raise FunctionError(f"needs reward_model.ground_truth, ground_truth or solution in a prompt's record; it has {', '.join(record)}")

    def __call__(self, asked: Sequence[dict[str, Any]]) -> Sequence[Any]:
        found = []
        for one in asked:
            record = one["columns"]
            given = {"data_source": record.get("data_source"), "solution_str": one["completion"], "ground_truth": self._truth(record),
                     "extra_info": record.get("extra_info") or {}}
            value = awaited(self._call(**accepted(given, self._parameters)))
            found.append(value["score"] if isinstance(value, dict) and "score" in value else value)
        return found


def refuse_missing(parameters: Sequence[inspect.Parameter], known: set[str], record: dict[str, Any]) -> None:
    for one in parameters:
        if is_given(one, known):
            continue
        raise FunctionError(f"needs '{one.name}', which is no column of the prompts; they have {', '.join(record) or 'none'}")


def values_in(value: Any, count: int) -> Sequence[Any]:
    """A list, or a tensor or array of one dimension, with a value for each completion."""
    value = awaited(value)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        raise FunctionError(f"returned {shown(value)}; wanted a list with a number or None for each of {count} completions")
    if len(value) != count:
        raise FunctionError(f"returned {len(value)} values for {count} completions")
    return value


def number_in(value: Any, one: dict[str, Any], index: int, count: int) -> float | None:
    return None if value is None else finite(value, about(one, index, count), ", or None for no reward")


def about(one: dict[str, Any], index: int, count: int) -> str:
    return f" for completion {index + 1} of {count}, {shown(one['completion'])} of the prompt {shown(prompt_of(one))}"


def kind_of(function: Any) -> Lists | Scores:
    """By what it is and what its parameters are called."""
    if inspect.isclass(function):
        function = made(function)
    if not callable(function):
        raise FunctionError(f"is {shown(function)}, not a function or class; {WANTED}")
    names = [one.name for one in parameters_of(function, WANTED)]
    if "solution_str" in names:
        return Scores(function)
    if "completions" in names:
        return Lists(function, of_messages=inspect.isroutine(function))
    raise FunctionError(f"has the parameters ({', '.join(names)}); {WANTED}")


class RewardFunction:
    """Of a user's function or class. Refused by a FunctionError if its form is none of the known ones."""

    def __init__(self, function: Any, name: str = ""):
        self._kind = kind_of(function)

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """The program's question: completions, or one of the records to refuse prompts by that lack what it needs."""
        if "check" in question:
            self._kind.check(question["check"])
        return {"rewards": self(question.get("completions", []))}

    def __call__(self, asked: Sequence[dict[str, Any]]) -> list[float | None]:
        if not asked:
            return []
        try:
            values = self._kind(asked)
        except FunctionError:
            raise
        except BaseException as error:
            raise FunctionError(raised(error) + self._culprit(asked, error)) from error
        return [number_in(value, one, index, len(asked)) for index, (value, one) in enumerate(zip(values, asked))]

    def _culprit(self, asked: Sequence[dict[str, Any]], error: BaseException) -> str:
        """The first completion that fails alone, too."""
        for index, one in enumerate(asked if isinstance(error, Exception) else []):
            try:
                self._kind([one])
            except type(error):
                return about(one, index, len(asked))
            except BaseException:
                return ""
        return ""
