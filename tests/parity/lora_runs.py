"""What the parity tests of LoRA share: adapters by name, rows, and the words of passes and of runs from an adapter."""
import functools
import json

import pytest

import steps
import tiny_models
from lora_adapters import ADAPTERS, ROWS, make_adapted
from program import words_of


def name_of(case):
    adapter, ranks, settings = case
    return f"{adapter} {ranks} ranks {' '.join(settings)}".strip()


@pytest.fixture(scope="module")
def adapted(folder):
    """By name of the adapter, made when first asked for."""
    return functools.cache(lambda name: make_adapted(folder / name, *ADAPTERS[name]))


@pytest.fixture(scope="module")
def rows(folder):
    tiny_models.write_rows(folder / "rows.jsonl", ROWS)
    return folder / "rows.jsonl"


def grads_words(one, rows, out, adapter=None):
    return ["grads", "--model", one.model, "--rows", rows, "--out", out, *(["--adapters", adapter] if adapter else [])]


def train_words(one, rows, output, settings):
    """A run from the adapter, ten steps in fp32."""
    path = output.parent / f"{output.name}.yaml"
    sections = {
        "device": "cpu", "model": {"path": str(one.model), "dtype": "fp32"},
        "tuning": {"kind": "lora", "dropout": 0.0},
        "data": {"train": [str(rows)], "shuffle": False, "packing": False, "max_length": 64},
        "optimizer": {**steps.COSINE, **steps.ADAMW},
        "run": {"steps": steps.STEPS, "global_batch": steps.BATCH, "micro_batch": 1, "output": str(output)},
        "save": {"every": 0}, "log": {"every": 1},
    }
    path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in sections.items()))
    return ["train", path, *words_of(settings)]


def read_log(output):
    return [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]


TRAINED = tiny_models.make_rows(steps.EPOCH + 1, shortest=8, seed=steps.SEED)


@pytest.fixture(scope="module")
def train_rows(folder):
    tiny_models.write_rows(folder / "train.jsonl", TRAINED)
    return folder / "train.jsonl"
