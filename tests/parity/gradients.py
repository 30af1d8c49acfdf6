"""Gradients by transformers, what the program's are compared with, and how: errors by kind and their tolerances."""
import collections
import math

import torch
from safetensors.torch import load_file

import tiny_models
from program import failure_text

LARGEST_ERROR = 1e9
LIMITS = {"loss": 1e-5, "gradient": 1e-4, "grad_norm": 1e-4}
Reference = collections.namedtuple("Reference", "model rows loss tokens grad_norm gradients")


def make_reference(folder, family, layers, rows, given):
    """What transformers computes from `rows`; the model and the rows `given` to the program are left in the folder."""
    folder.mkdir(parents=True)
    model = tiny_models.write_model(tiny_models.config_of(family, num_hidden_layers=layers, pad_token_id=tiny_models.PADDING), folder / "model")
    tiny_models.write_rows(folder / "rows.jsonl", given)
    loss, tokens = tiny_models.backward(model, rows)
    gradients = tiny_models.gradients(model)
    norm = tiny_models.norm_of(gradients.values())
    return Reference(folder / "model", folder / "rows.jsonl", loss, tokens, norm, gradients)


def relative(found, wanted):
    """Of numbers or tensors. What is not finite, or should be all zero and is not, counts as the largest error."""
    found, wanted = (torch.as_tensor(value, dtype=torch.float64) for value in (found, wanted))
    difference, size = (found - wanted).norm().item(), wanted.norm().item()
    if difference == 0:
        return 0.0
    return min(difference / size, LARGEST_ERROR) if math.isfinite(difference) and size > 0 else LARGEST_ERROR


def largest_error(found, wanted):
    """Of all tensors of `wanted`."""
    return max(relative(found[name], tensor) for name, tensor in wanted.items())


def assert_within(errors, limits, where=""):
    """Every error within its tolerance; what is not is named with both."""
    beyond = [f"{kind} {errors[kind]:.2e}, tolerance {limit:.0e}" for kind, limit in limits.items()
              if not errors[kind] <= limit]
    assert not beyond, f"{'; '.join(beyond)} {where}"


def assert_same_tensors(found, wanted):
    """Names, types and shapes."""
    assert found.keys() == wanted.keys(), f"names differ: {sorted(found.keys() ^ wanted.keys())}"
    for name, tensor in wanted.items():
        has, wants = (f"{each.dtype} {list(each.shape)}" for each in (found[name], tensor))
        assert has == wants, f"{name} is {has}; wanted {wants}"


def assert_line_equals(line, found, reference, record_errors, limits=LIMITS):
    """The printed line and the gradients that were written, against the reference."""
    assert_same_tensors(found, reference.gradients)
    each = {name: relative(found[name], wanted) for name, wanted in reference.gradients.items()}
    worst = max(each, key=each.get)
    errors = {"loss": relative(line["loss"], reference.loss), "gradient": each[worst],
              "grad_norm": relative(line["grad_norm"], reference.grad_norm)}
    record_errors(errors)
    assert_within(errors, limits, f"(worst gradient: {worst})")
    assert line["tokens"] == reference.tokens, f"tokens {line['tokens']}, wanted {reference.tokens}"


def assert_equals(outcome, reference, record_errors, limits=LIMITS):
    """What a `grads` command left, against the reference."""
    assert outcome.line is not None, failure_text(outcome.result)
    assert_line_equals(outcome.line, load_file(outcome.out), reference, record_errors, limits)
