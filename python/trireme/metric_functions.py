"""Metrics of an evaluation as people have them, told apart by their parameters: f(predictions, references, **columns), a metric of
the library evaluate, transformers' compute_metrics, ms-swift's class with one. From the answers that a model wrote to named numbers,
or an error that names the function, its line and what it returned. Knows no process and no file."""
from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from .user_functions import FunctionError, accepted, awaited, finite, is_given, made, parameters_of, raised, shown

WANTED = ("wanted f(predictions, references, **columns) on texts, compute_metrics(eval_pred) as transformers', or a class with "
          "compute_metrics(self, eval_prediction) as ms-swift's; each returns a number, or a dict of them")
# What people call the two lists of texts.
ALIASES = {"predictions": ("preds", "responses"), "references": ("refs", "labels", "targets")}
NOT_TRAINED = -100  # what transformers fills shorter rows with


class EvalPrediction:
    """What transformers gives to compute_metrics: arrays of token ids, filled with -100, which can be unpacked into two."""

    def __init__(self, predictions: Any, label_ids: Any):
        self.predictions, self.label_ids, self.inputs, self.losses = predictions, label_ids, None, None

    def __iter__(self):
        return iter((self.predictions, self.label_ids))

    def __getitem__(self, index: int) -> Any:
        return (self.predictions, self.label_ids, self.inputs, self.losses)[index]


def filled(rows: Sequence[Sequence[int]]) -> Any:
    """An array of rows as long as the longest."""
    try:
        import numpy
    except ImportError:
        raise FunctionError(f"takes arrays, and {sys.executable} has no numpy; install it there, or take predictions and references, "
                            "which are lists of texts") from None
    longest = max(map(len, rows), default=0)
    return numpy.array([[*row, *[NOT_TRAINED] * (longest - len(row))] for row in rows], dtype="int64").reshape(len(rows), longest)


def serialized(texts: Sequence[str], serializer: Any) -> Any:
    """As ms-swift gives texts to its metrics: a row of bytes each, which its Serializer reads."""
    import numpy
    rows = [numpy.asarray(serializer.to_tensor(text)) for text in texts]
    longest = max(map(len, rows), default=0)
    return numpy.stack([numpy.pad(row, (0, longest - len(row))) for row in rows])


class OnTexts:
    """Lists of texts, and of what else is known of an answer."""

    def __init__(self, call: Callable, parameters: Sequence[inspect.Parameter]):
        self._call, self._parameters = call, parameters

    def __call__(self, answers: Mapping[str, list]) -> Any:
        given = dict(answers)
        named = {one.name for one in self._parameters}
        given.update({alias: answers[name] for name, aliases in ALIASES.items() for alias in aliases if alias in named})
        for one in self._parameters:
            if not is_given(one, given):
                raise FunctionError(f"needs '{one.name}'; there are {', '.join(answers)}")
        return self._call(**accepted(given, self._parameters))


class OnIds:
    """transformers' form: one argument with two arrays. Of ms-swift's class, where its Serializer is loaded, arrays of texts."""

    def __init__(self, call: Callable, is_swift: bool):
        self._call, self._is_swift = call, is_swift

    def __call__(self, answers: Mapping[str, list]) -> Any:
        serializer = getattr(sys.modules.get("swift.utils"), "Serializer", None) if self._is_swift else None
        if serializer is not None:
            return self._call(EvalPrediction(*(serialized(answers[name], serializer) for name in ("predictions", "references"))))
        return self._call(EvalPrediction(filled(answers["prediction_ids"]), filled(answers["reference_ids"])))


def instance_of(function: Any) -> Any:
    """ms-swift makes its metrics with the training's arguments and trainer, which are not here."""
    if not inspect.isclass(function):
        return function
    if getattr(function, "compute_metrics", None) is not None:
        required = [one for one in parameters_of(function, WANTED) if not is_given(one, ())]
        return made(function, *[None] * len(required))
    return made(function)


def kind_of(function: Any) -> OnTexts | OnIds:
    """By what it is and what its parameters are called."""
    function = instance_of(function)
    if callable(getattr(function, "compute_metrics", None)):
        return OnIds(function.compute_metrics, is_swift=True)
    if callable(getattr(function, "compute", None)):  # of the library evaluate: it refuses columns that it does not know
        compute = function.compute
        return OnTexts(lambda predictions, references: compute(predictions=predictions, references=references),
                       parameters_of(lambda predictions, references: None, WANTED))
    if not callable(function):
        raise FunctionError(f"is {shown(function)}, not a function or class; {WANTED}")
    parameters = parameters_of(function, WANTED)
    names = [one.name for one in parameters]
    if any(name in names for name in ("predictions", *ALIASES["predictions"])):
        return OnTexts(function, parameters)
    required = [one for one in parameters if not is_given(one, ())]
    if len(required) == 1 and required[0].kind is not required[0].KEYWORD_ONLY:
        return OnIds(function, is_swift=False)
    raise FunctionError(f"has the parameters ({', '.join(names)}); {WANTED}")


def number_in(value: Any, name: str, count: int) -> float:
    """A number, or the mean of one per answer, of which None counts nothing."""
    about = f" for '{name}'"
    if hasattr(value, "tolist"):
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        return finite(value, about)
    if len(value) != count:
        raise FunctionError(f"returned {len(value)} values{about} and {count} answers; wanted a number, or one per answer")
    numbers = [finite(one, f"{about}, answer {index} of {count}") for index, one in enumerate(value, 1) if one is not None]
    if not numbers:
        raise FunctionError(f"returned None{about} and each of {count} answers; wanted a number, or one per answer")
    return sum(numbers) / len(numbers)


class MetricFunction:
    """Of a user's function or class. `name`: of its number, where it returns one without a name. Refused by a FunctionError if its
    form is none of the known ones."""

    def __init__(self, function: Any, name: str):
        self._kind, self._name = kind_of(function), name

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """The program's question: the answers of an evaluation, or none, to refuse a function that cannot be asked."""
        return {"metrics": self(question["answers"]) if "answers" in question else {}}

    def __call__(self, answers: Mapping[str, list]) -> dict[str, float]:
        try:
            found = awaited(self._kind(answers))
        except FunctionError:
            raise
        except BaseException as error:
            raise FunctionError(raised(error)) from error
        found = found if isinstance(found, Mapping) else {self._name: found}
        if not found:
            raise FunctionError("returned an empty dict; wanted a number, or a dict of them")
        return {str(name).removeprefix("eval_"): number_in(value, str(name), len(answers["predictions"])) for name, value in found.items()}
