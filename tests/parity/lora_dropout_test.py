"""Dropout of a LoRA run: the same values are dropped under every layout, of the adapters' inputs and of hidden states."""
import pytest
import torch
from safetensors.torch import load_file

from gradients import assert_within, largest_error, relative
from lora_runs import adapted, grads_words, name_of, read_log, rows, train_rows, train_words  # noqa: F401  fixtures
from program import Launches, failure_text, run_many, words_of

# New adapters with dropout: any layout drops the same inputs. model, ranks, settings
DROPOUT = [
    ("all-linear", 1, []),
    ("all-linear", 1, ["tuning.dropout=0"]),
    ("qwen3_moe", 1, []),
    ("all-linear", 1, ["memory.recompute=full", "run.micro_batch=4"]),
    ("all-linear", 1, ["memory.recompute=selective", "run.micro_batch=2"]),
    ("all-linear", 2, ["parallel.tensor=2"]),
    ("all-linear", 2, ["parallel.pipeline=2", "parallel.schedule=zero_bubble", "memory.recompute=selective"]),
    ("all-linear", 2, ["parallel.zero=3"]),
    ("all-linear", 2, ["parallel.context=2"]),
    ("qwen3_moe", 2, ["parallel.expert=2"]),
    ("qwen3_moe", 2, ["parallel.tensor=2", "parallel.expert_tensor=2", "memory.recompute=full"]),
]
# Hidden values dropped in one pass: the gradient of every parameter is that of one rank. model, ranks, settings
HIDDEN = [
    ("all-linear", 1, []),
    ("qwen3_moe", 1, []),
    ("all-linear", 1, ["tuning.hidden_dropout=0"]),
    ("all-linear", 1, ["memory.recompute=full", "run.micro_batch=4"]),
    ("all-linear", 1, ["memory.recompute=selective"]),
    ("all-linear", 1, ["ops.off=[dropout_add]"]),
    ("all-linear", 2, ["parallel.tensor=2"]),
    ("all-linear", 2, ["parallel.tensor=2", "parallel.sequence=false", "memory.recompute=full"]),
    ("all-linear", 2, ["parallel.pipeline=2", "memory.recompute=selective"]),
    ("all-linear", 2, ["parallel.context=2"]),
    ("qwen3_moe", 2, ["parallel.tensor=2", "parallel.expert=2"]),
    ("qwen3_moe", 2, ["parallel.tensor=2", "parallel.expert=2", "parallel.sequence=false"]),
    ("qwen3_moe", 2, []),
]


def launch_dropout(ranks, cases, adapted, rows, train_rows):
    """Both kinds in one launch: outputs of the runs, gradients of the passes, and how the launch ended."""
    commands, left = [], []
    for number, (kind, (model, _, settings)) in enumerate(cases):
        place = rows.parent / f"{kind}-{ranks}-{number}"
        left.append(place)
        if kind == "inputs":
            commands.append(train_words(adapted(model), train_rows, place, [
                "tuning.dropout=0.3", "run.steps=4", "optimizer.lr=0.02", "tuning.alpha=16", *settings]))
        else:
            commands.append([*grads_words(adapted(model), rows, place), *words_of(["tuning.hidden_dropout=0.2", *settings])])
    result = run_many(ranks, commands)
    return [(place, result) for place in left]


DROPPED = [("inputs", case) for case in DROPOUT] + [("hidden", case) for case in HIDDEN]


@pytest.fixture(scope="module")
def dropped(adapted, rows, train_rows):
    return Launches(DROPPED, lambda case: case[1][1],
                    lambda ranks, cases: launch_dropout(ranks, cases, adapted, rows, train_rows))


def first_of(kind, model):
    """What the other cases of a model are compared with: the first, on one rank."""
    return next(case for case in DROPPED if case[0] == kind and case[1][0] == model)


def assert_dropped(error, tolerance, differs, least, record_errors):
    if differs:
        assert error > least, f"another share dropped changes this by {error:.1e}, wanted more than {least:.0e}"
    else:
        record_errors({"error": error})
        assert_within({"error": error}, {"error": tolerance})


@pytest.mark.parametrize("case", DROPPED[:len(DROPOUT)], ids=lambda case: name_of(case[1]))
def test_dropout(case, dropped, record_errors):
    curves = []
    for output, result in (dropped.of(case), dropped.of(first_of(case[0], case[1][0]))):
        assert (output / "final").exists(), failure_text(result)
        curves.append(torch.tensor([line["loss"] for line in read_log(output)], dtype=torch.float64))
    assert_dropped(relative(*curves), 2e-5, "tuning.dropout=0" in case[1][2], 1e-3, record_errors)


@pytest.mark.parametrize("case", DROPPED[len(DROPOUT):], ids=lambda case: name_of(case[1]))
def test_hidden_dropout(case, dropped, record_errors):
    found = []
    for out, result in (dropped.of(case), dropped.of(first_of(case[0], case[1][0]))):
        assert out.exists(), failure_text(result)
        found.append(load_file(out))
    assert_dropped(largest_error(*found), 1e-4, "tuning.hidden_dropout=0" in case[1][2], 1e-2, record_errors)
