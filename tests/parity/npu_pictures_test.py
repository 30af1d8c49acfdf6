"""The example that sees on device npu: the steps of a few layouts have the loss and the norm of gradients that the cpu has on
one rank, and images make the host wait for the device no more often than text does."""
import json
import pathlib
import random
import sys

import pytest

from program import BUILD, failure_text, run_many, run_well, start, words_of

EXAMPLE = pathlib.Path("examples/pictures")
FEW, MANY = 1, 5
PICTURES = 24
LIMITS = {"loss": 1e-5, "grad_norm": 1e-4}  # as gradients.py has them
LAYOUTS = {"tensor": ["parallel.tensor=2"], "context": ["parallel.context=2"], "data": ["parallel.zero=3", "run.micro_batch=1"]}


@pytest.fixture(scope="module")
def pictures(folder):
    sys.path.insert(0, str(EXAMPLE))
    import draw
    draw.write(folder, "train", PICTURES, random.Random(5))
    return folder


def settings(folder, name, device, steps):
    return [f"device={device}", f"data.train=[{folder / 'train.jsonl'}]", "data.valid=[]", f"data.cache={folder / 'cache'}",
            f"run.output={folder / name}", f"run.steps={steps}", "run.global_batch=4", "run.micro_batch=2", "eval.every=0",
            "log.every=1"]


def log_of(folder, name):
    return [json.loads(line) for line in (folder / name / "log.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def wanted(pictures):
    run_well(None, ["train", EXAMPLE / "run.yaml"], settings(pictures, "cpu", "cpu", MANY))
    return log_of(pictures, "cpu")


def assert_same(found, wanted, record_property, name):
    for kind, limit in LIMITS.items():
        error = max(abs(one[kind] / other[kind] - 1) for one, other in zip(found, wanted, strict=True))
        record_property(f"{kind} of {name}", error)
        assert error <= limit, f"{name}: {kind} differs by {error}"


def waits_of(folder, steps):
    """Of a process that trains so many steps."""
    name = f"npu-{steps}"
    result = start(None, [BUILD / "trireme", "train", EXAMPLE / "run.yaml", *words_of(settings(folder, name, "npu", steps))],
                   variables={"TWIN_HOST_WAITS": str(folder / f"{name}.waits")})
    assert result.returncode == 0, failure_text(result)
    return json.loads((folder / f"{name}.waits").read_text())


def test_one_rank(pictures, wanted, record_property):
    few, many = waits_of(pictures, FEW), waits_of(pictures, MANY)
    assert_same(log_of(pictures, f"npu-{MANY}"), wanted, record_property, "one rank")
    per_step = {what: (many[what] - few.get(what, 0)) / (MANY - FEW) for what in many if what != "pid"}
    record_property("per step", json.dumps({what: calls for what, calls in per_step.items() if calls}))
    assert few["aclrtSynchronizeStream"] > 0, "nothing was counted"

    def calls_of(begin, end):
        return sum(calls for what, calls in per_step.items() if what.startswith(begin) and what.endswith(end))
    # As npu_waits_test has it for text: the norm of the gradients, and what the first step may have missed.
    assert calls_of("aclrtSynchronize", "") <= 1 + 2 * FEW / (MANY - FEW), str(per_step)
    assert calls_of("", "to host") <= 2, str(per_step)
    assert calls_of("", "from host") == 0, str(per_step)


def test_two_ranks(pictures, wanted, record_property):
    result = run_many(2, [["train", EXAMPLE / "run.yaml", *words_of([*settings(pictures, name, "npu", MANY), *layout])]
                          for name, layout in LAYOUTS.items()])
    assert result.returncode == 0, failure_text(result)
    for name in LAYOUTS:
        assert_same(log_of(pictures, name), wanted, record_property, name)
