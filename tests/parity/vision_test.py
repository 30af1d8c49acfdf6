"""Models that see, against transformers in fp32: loss, trained tokens and the gradient of every parameter, the vision
tower's among them, from the same patches under every kind of layout. Rows have several images of different sizes, or none.
On device npu a few cases in which every family, and every way of sharing work, is met once; all of them with --full."""
import json

import pytest
from safetensors.torch import load_file

import seeing_models
from gradients import LIMITS, assert_line_equals, largest_error
from program import Launches, failure_text, run, run_grads, words_of

OPTIONS = ("where", "ranks", "device", "full")
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
# Of a tower over tiles: the same, ranks that share packed rows' tokens, and a data-parallel rank without images.
WITH_TILES = LAYOUTS[0:1] + LAYOUTS[3:4] + LAYOUTS[5:6] + LAYOUTS[7:9]

# Each rank imports torch_npu: two launches, of one rank and of two, have them all.
ON_NPU = {
    "internvl": LAYOUTS[3:4],
    "internvl_6b": LAYOUTS[1:2],
    "qwen2_5_vl": [LAYOUTS[1], LAYOUTS[5], LAYOUTS[7]],
    "qwen3_vl": [LAYOUTS[0], LAYOUTS[3], LAYOUTS[6]],
    "qwen3_5": LAYOUTS[2:3],
    "qwen3_5_moe": LAYOUTS[0:1],
    "qwen3_vl_moe": [LAYOUTS[0], WITH_EXPERTS[0]],
}


def layouts_of(config):
    if config.getoption("device") == "npu" and not config.getoption("full"):
        return ON_NPU
    layouts = {family: FEW + WITH_EXPERTS if family.endswith("_moe") else LAYOUTS for family in seeing_models.MODELS}
    return layouts | {"internvl": WITH_TILES, "internvl_6b": LAYOUTS[1:2] + LAYOUTS[3:4], "qwen3_5": WITH_STATES,
                      "qwen3_5_moe": LAYOUTS[0:1] + WITH_EXPERTS[1:2]}


def chosen(config, cases):
    wanted = [condition.split("=") for condition in config.getoption("where")]
    most = config.getoption("ranks") or 4
    return [case for case in cases if case["ranks"] <= most and all(str(case[key]) == value for key, value in wanted)]


def cases_of(config):
    return chosen(config, [dict(model=family, ranks=ranks, rows=rows, settings=settings)
                           for family, layouts in layouts_of(config).items() for ranks, rows, settings in layouts])


def text(case):
    return " ".join([case["model"], str(case["ranks"]), case["rows"], *(word.split(".")[1] for word in case["settings"])])


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", cases_of(metafunc.config), ids=text)
    if "frozen" in metafunc.fixturenames:
        metafunc.parametrize("frozen", chosen(metafunc.config, FROZEN), ids=text)


class References:
    """Made when first asked for, one for each model and rows."""

    def __init__(self, folder):
        self.folder, self.made = folder, {}

    def of(self, case):
        key = (case["model"], case["rows"])
        if key not in self.made:
            rows = seeing_models.make_rows(tiled=seeing_models.is_tiled(case["model"]))
            given = seeing_models.pack(rows, 3) if case["rows"] == "packed" else rows
            self.made[key] = seeing_models.make_reference(self.folder / "-".join(key), case["model"], 5, rows, given)
        return self.made[key]


@pytest.fixture(scope="module")
def references(folder):
    return References(folder)


@pytest.fixture(scope="module")
def outcomes(selected, references, folder, device):
    """Of all cases, with and without frozen parts; the last command of a launch lists the operators that ran, on device npu."""
    def launch(ranks, cases):
        commands = []
        for number, case in enumerate(cases):
            reference = references.of(case)
            commands.append(["grads", "--model", reference.model, "--rows", reference.rows, "--out",
                             folder / f"{ranks}-{number}.safetensors", *words_of([f"device={device}", *case["settings"]])])
        last = [["check", "--npu-ops", "--json"]] if device == "npu" else []
        return run_grads(ranks if ranks > 1 else None, commands + last)

    return Launches(selected(test_gradients) + selected(test_frozen_parts, "frozen"), lambda case: case["ranks"], launch)


# Without rotary embedding a key's bias adds the same to all scores of a query: its gradient is 0, and what is computed is noise.
NO_GRADIENT, NOISE = ("vision_tower.", ".k_proj.bias"), 1e-7


def is_noise(name):
    return name.startswith(NO_GRADIENT[0]) and name.endswith(NO_GRADIENT[1])


def test_gradients(case, outcomes, references, record_errors):
    outcome, reference = outcomes.of(case), references.of(case)
    assert outcome.line is not None, failure_text(outcome.result)
    found, wanted = load_file(outcome.out), reference.gradients
    for name in filter(is_noise, wanted):
        assert found[name].abs().max() < NOISE and wanted[name].abs().max() < NOISE, name
        found[name] = wanted[name]
    assert_line_equals(outcome.line, found, reference, record_errors)


# name, what is done to the second row, what the line must say
REFUSED = [
    ("an odd grid", lambda row: row["image_grid_thw"].__setitem__(0, [1, 5, 8]), ["5 x 8 patches", "multiples of 2"]),
    ("a grid of more tokens", lambda row: row["image_grid_thw"].__setitem__(0, [1, 4, 12]),
     ["has 10 placeholders", "4 x 12 patches has 12 tokens"]),
    ("a video", lambda row: row["image_grid_thw"].__setitem__(0, [2, 4, 10]), ["2 frames"]),
    ("more images than placeholders", lambda row: row["image_grid_thw"].append([1, 2, 2]), ["1 more images"]),
    ("fewer images than placeholders", lambda row: row["image_grid_thw"].pop(), ["placeholder (998)", "images end before it"]),
    ("patches of another row", lambda row: row.update(pixel_values="rows-0.safetensors"),
     ["rows-0.safetensors", "[24, 96]", "[44, 96]"]),
]


@pytest.mark.devices("cpu")  # nothing is computed
@pytest.mark.parametrize("change, words", [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_refused(change, words, references, folder):
    """Before any work, naming the record."""
    reference = references.of(dict(model="qwen2_5_vl", rows="plain"))
    lines = [json.loads(line) for line in reference.rows.read_text().splitlines()]
    change(lines[1])
    bad = reference.rows.parent / "bad.jsonl"
    bad.write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = run(None, ["grads", "--model", reference.model, "--rows", bad, "--out", folder / "never.safetensors"])
    assert result.returncode == 2 and not result.stdout and not (folder / "never.safetensors").exists(), failure_text(result)
    for word in ("bad.jsonl:2", *words):
        assert word in result.stderr, f"{word!r} is not in: {failure_text(result)}"


# Parts that are not trained, by family: what their tensors' names begin with.
PARTS = {"internvl": dict(aligner="multi_modal_projector.", vision="vision_tower."),
         "qwen2_5_vl": dict(aligner="visual.merger.", vision="visual."),
         "qwen3_vl": dict(aligner=("model.visual.merger.", "model.visual.deepstack_merger_list."), vision="model.visual.")}


def part_of(name, family):
    return next((part for part, start in PARTS[family].items() if name.startswith(start)), "language")


def frozen_case(model, ranks, settings, parts):
    freeze = f"tuning.freeze=[{', '.join(parts)}]"
    return dict(model=model, ranks=ranks, rows="plain", settings=[*settings, freeze], parts=parts)


FROZEN = [
    frozen_case("qwen2_5_vl", 1, [FULL], ["vision"]),
    frozen_case("qwen3_vl", 2, [*p(tensor=2), ZERO3], ["vision", "aligner"]),
    frozen_case("qwen3_vl", 2, [*p(pipeline=2), "parallel.schedule=zero_bubble", SELECTIVE], ["vision", "aligner"]),
    frozen_case("qwen2_5_vl", 2, [ZERO3], ["language", "aligner"]),
    frozen_case("internvl", 2, [*p(tensor=2), FULL], ["vision", "aligner"]),
    frozen_case("internvl", 1, [], ["language"]),
]


def test_frozen_parts(frozen, outcomes, references):
    """The gradients that are left are those of the whole model."""
    outcome, family = outcomes.of(frozen), frozen["model"]
    assert outcome.line is not None, failure_text(outcome.result)
    gradients = references.of(frozen).gradients
    wanted = {name: each for name, each in gradients.items() if part_of(name, family) not in frozen["parts"]}
    found = load_file(outcome.out)
    assert found.keys() == wanted.keys(), sorted(found.keys() ^ wanted.keys())
    assert largest_error(found, {name: each for name, each in wanted.items() if not is_noise(name)}) < LIMITS["gradient"]


@pytest.mark.devices("npu")
def test_launches(outcomes):
    """They end well, and call no operator that is not in core/npu/used_operators.inc."""
    assert outcomes.left, "no case ran"
    for ranks, left in outcomes.left.items():
        assert left[0].result.returncode == 0, f"{ranks} ranks: {failure_text(left[0].result)}"
        operators = json.loads(left[0].result.stdout.splitlines()[-1])["operators"]
        unknown = [entry["name"] for entry in operators if entry["calls"] > 0 and not entry["used"]]
        assert not unknown, f"called, but not listed: {unknown}"
