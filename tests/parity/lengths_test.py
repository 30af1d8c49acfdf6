"""Documents of lengths on both sides of every power of two up to 512, so that whatever size tiles, chunks, rings and
buffers are cut to is passed, against transformers one document at a time: loss and every gradient, packed into few rows and
as rows of their own, under tensor, context, pipeline parallelism and recomputation."""
import random

import pytest

import tiny_models
from gradients import assert_equals, make_reference
from program import Launches, run_grads, words_of

LENGTHS = sorted({2, *(length for power in range(4, 10) for length in (2 ** power - 1, 2 ** power, 2 ** power + 1))})
# packed or apart, ranks, settings
LAYOUTS = [
    ("packed", 1, []), ("packed", 1, ["memory.recompute=selective"]),
    ("packed", 2, ["parallel.context=2"]), ("packed", 2, ["parallel.context=2", "parallel.context_method=ulysses"]),
    ("packed", 2, ["parallel.tensor=2", "memory.recompute=full"]), ("packed", 2, ["parallel.pipeline=2"]),
    ("apart", 1, []), ("apart", 2, ["parallel.context=2", "run.micro_batch=2"]),
]
CASES = [(family, *layout) for family in ("qwen3", "deepseek_v3") for layout in LAYOUTS]


def make_rows():
    generator = random.Random(3)
    rows = []
    for length in LENGTHS:
        ids = [generator.randrange(tiny_models.VOCABULARY) for _ in range(length)]
        rows.append({"input_ids": ids, "labels": [token if generator.random() < 0.9 else -100 for token in ids]})
    return rows


@pytest.fixture(scope="module")
def references(folder):
    """By family; the rows of their own are beside the packed ones."""
    rows, made = make_rows(), {}
    for family in dict.fromkeys(case[0] for case in CASES):
        made[family] = make_reference(folder / family, family, 2, rows, tiny_models.pack(rows, 3))
        tiny_models.write_rows(folder / family / "apart.jsonl", rows)
    return made


def launch(ranks, cases, references, folder):
    commands = []
    for number, (family, rows, _, settings) in enumerate(cases):
        reference = references[family]
        given = reference.rows if rows == "packed" else reference.rows.parent / "apart.jsonl"
        commands.append(["grads", "--model", reference.model, "--rows", given, "--out",
                         folder / f"{ranks}-{number}.safetensors", *words_of(settings)])
    return run_grads(ranks, commands)


@pytest.fixture(scope="module")
def launches(selected, references, folder):
    return Launches(selected(test_lengths), lambda case: case[2],
                    lambda ranks, cases: launch(ranks, cases, references, folder))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[1]} {case[2]} ranks {' '.join(case[3])}")
def test_lengths(case, launches, references, record_errors):
    assert_equals(launches.of(case), references[case[0]], record_errors)
