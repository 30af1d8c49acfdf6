"""Models that see, against transformers in fp32: loss, trained tokens and the gradient of every parameter, the vision
tower's among them, from the same patches under every kind of layout. Rows have several images of different sizes, or none."""
import pytest
from safetensors.torch import load_file

import seeing_models
from gradients import LIMITS, assert_equals, largest_error
from program import Launches, failure_text, run_grads, words_of

OPTIONS = ("where", "ranks")
FULL, SELECTIVE, ZERO3 = "memory.recompute=full", "memory.recompute=selective", "parallel.zero=3"
WHOLE = "parallel.sequence=false"


def p(**sizes):
    return [f"parallel.{axis}={size}" for axis, size in sizes.items()]


# Ranks, rows as given ("plain" or "packed"), settings.
LAYOUTS = [
    (1, "plain", []),
    (1, "packed", ["run.micro_batch=2", FULL]),
    (1, "plain", ["run.micro_batch=3", SELECTIVE]),
    (2, "plain", [*p(tensor=2), "run.micro_batch=2"]),
    (2, "packed", [*p(tensor=2), WHOLE, FULL]),
    (2, "plain", [*p(pipeline=2), "parallel.schedule=zero_bubble", ZERO3]),
    (2, "plain", [*p(context=2), "parallel.context_method=ring"]),
    (2, "packed", [*p(context=2), "parallel.context_method=ulysses", SELECTIVE]),
    (2, "plain", [ZERO3, FULL]),                      # data parallel: a rank without images meets one with
    (4, "plain", [*p(tensor=4), ZERO3]),
    (4, "plain", [*p(tensor=2, pipeline=2), "parallel.schedule=dualpipev", "parallel.virtual_stages=2", SELECTIVE]),
    (4, "packed", [*p(context=2, tensor=2), "parallel.context_method=ring", FULL]),
    (4, "plain", [*p(pipeline=2), "parallel.schedule=interleaved", "parallel.virtual_stages=2", ZERO3, "run.micro_batch=2"]),
    (4, "plain", [*p(tensor=2), ZERO3, WHOLE, FULL]),
]
WITH_EXPERTS = [
    (2, "plain", [*p(expert=2), ZERO3]),
    (4, "packed", [*p(tensor=2, expert=2, expert_tensor=2), SELECTIVE]),
    (4, "plain", [*p(pipeline=2, expert=2), "parallel.schedule=zero_bubble"]),
]
FEW = LAYOUTS[0:1] + LAYOUTS[3:4] + LAYOUTS[11:12]  # of the model with experts, beside its own
# Of a model with the tower of another one and the layers of a third: one rank, ranks that share heads or tokens, two stages.
WITH_STATES = LAYOUTS[0:1] + LAYOUTS[3:4] + LAYOUTS[5:7] + LAYOUTS[11:12]


def cases_of(config):
    wanted = [condition.split("=") for condition in config.getoption("where")]
    most = config.getoption("ranks") or 4
    layouts = {family: FEW + WITH_EXPERTS if family.endswith("_moe") else LAYOUTS for family in seeing_models.MODELS}
    layouts |= {"qwen3_5": WITH_STATES, "qwen3_5_moe": LAYOUTS[0:1] + WITH_EXPERTS[1:2]}
    cases = [dict(model=family, ranks=ranks, rows=rows, settings=settings)
             for family, chosen in layouts.items() for ranks, rows, settings in chosen]
    return [case for case in cases if case["ranks"] <= most and all(str(case[key]) == value for key, value in wanted)]


def text(case):
    return " ".join([case["model"], str(case["ranks"]), case["rows"], *(word.split(".")[1] for word in case["settings"])])


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", cases_of(metafunc.config), ids=text)


class References:
    """Made when first asked for, one for each model and rows."""

    def __init__(self, folder):
        self.folder, self.made = folder, {}

    def of(self, case):
        key = (case["model"], case["rows"])
        if key not in self.made:
            rows = seeing_models.make_rows()
            given = seeing_models.pack(rows, 3) if case["rows"] == "packed" else rows
            self.made[key] = seeing_models.make_reference(self.folder / "-".join(key), case["model"], 5, rows, given)
        return self.made[key]


@pytest.fixture(scope="module")
def references(folder):
    return References(folder)


@pytest.fixture(scope="module")
def outcomes(selected, references, folder):
    def launch(ranks, cases):
        commands = []
        for number, case in enumerate(cases):
            reference = references.of(case)
            commands.append(["grads", "--model", reference.model, "--rows", reference.rows, "--out",
                             folder / f"{ranks}-{number}.safetensors", *words_of(case["settings"])])
        return run_grads(ranks if ranks > 1 else None, commands)

    return Launches(selected(test_gradients), lambda case: case["ranks"], launch)


def test_gradients(case, outcomes, references, record_errors):
    assert_equals(outcomes.of(case), references.of(case), record_errors)


# Parts that are not trained, by family: what their tensors' names begin with.
PARTS = {"qwen2_5_vl": dict(aligner="visual.merger.", vision="visual."),
         "qwen3_vl": dict(aligner=("model.visual.merger.", "model.visual.deepstack_merger_list."), vision="model.visual.")}


def part_of(name, family):
    return next((part for part, start in PARTS[family].items() if name.startswith(start)), "language")


@pytest.mark.parametrize("family, ranks, settings, frozen", [
    ("qwen2_5_vl", 1, [FULL], ["vision"]),
    ("qwen3_vl", 2, [*p(tensor=2), ZERO3], ["vision", "aligner"]),
    ("qwen3_vl", 2, [*p(pipeline=2), "parallel.schedule=zero_bubble", SELECTIVE], ["vision", "aligner"]),
    ("qwen2_5_vl", 2, [ZERO3], ["language", "aligner"]),
])
def test_frozen_parts(family, ranks, settings, frozen, references, folder):
    """The gradients that are left are those of the whole model."""
    reference = references.of(dict(model=family, rows="plain"))
    out = folder / "frozen.safetensors"
    out.unlink(missing_ok=True)
    words = ["grads", "--model", reference.model, "--rows", reference.rows, "--out", out,
             *words_of([*settings, f"tuning.freeze=[{', '.join(frozen)}]"])]
    outcome = run_grads(ranks if ranks > 1 else None, [words])[0]
    assert outcome.line is not None, failure_text(outcome.result)
    wanted = {name: each for name, each in reference.gradients.items() if part_of(name, family) not in frozen}
    found = load_file(out)
    assert found.keys() == wanted.keys(), sorted(found.keys() ^ wanted.keys())
    assert largest_error(found, wanted) < LIMITS["gradient"]
