"""`trireme bench step` prints every field, sane, for one rank and two. How fast it is compared with transformers is
measured by hand, with step_speed.py: a test has no limits in seconds."""
import json

import pytest
import transformers

import step_speed

ROWS, LENGTH = 4, 32
SHAPES = {"1 rank bf16": (("bf16", 2, 2, LENGTH), 1, []), "1 rank fp32": (("fp32", 2, 2, LENGTH), 1, []),
          "1 rank bf16, 4 rows": (("bf16", 1, ROWS, LENGTH), 1, [])}
SHAPES |= {f"2 ranks {name}": (("bf16", 1, ROWS, LENGTH), 2, settings) for name, settings in step_speed.LAYOUTS.items()}


@pytest.fixture(scope="module")
def model(folder):
    transformers.Qwen3Config(**step_speed.TINY).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("shape, ranks, settings", SHAPES.values(), ids=SHAPES)
def test_fields(shape, ranks, settings, model):
    line = step_speed.run_ours(model, shape, ranks, settings)
    assert not step_speed.wrong_fields(line, shape[2] * shape[3]), line


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_peer_runs(dtype, model):
    line = step_speed.run_peer(model, dtype, 2, LENGTH)
    assert line["tokens_per_second"] > 0 and line["peak_memory_gib"] > 0, json.dumps(line)
