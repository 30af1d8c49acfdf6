"""Memory of runs over packed weights (model.quantise): what the dry run plans is what tensors take, for every such run of
examples/ascend, scaled down; and where weights dominate, packing leaves less than half of a LoRA step's memory."""
import json
import pathlib

import pytest

import npu_memory_test as plans
from program import Launches, failure_text, run_many, words_of

OPTIONS = ("device",)
# run, model whose config is scaled down, its sizes, ranks, the layout of so few ranks
RUNS = [
    ("qwen3_32b_qlora", "qwen3-32b", plans.WIDER, 1, []),
    ("qwen2.5_72b_qlora", "qwen2.5-72b", plans.WIDER, 1, []),
    # Few tokens: the plan leaves out the temporaries of single operators, which experts have more of.
    ("qwen3_30b_a3b_qlora", "qwen3-30b-a3b", plans.WIDER | plans.EXPERTS, 1, ["data.max_length=64", "data.train=[]"]),
    ("deepseek_v3_qlora", "deepseek-v3", plans.WIDER | plans.LATENT, 2, ["parallel.tensor=2", "parallel.expert=2"]),
]


def test_every_run_is_here():
    runs = pathlib.Path("examples/ascend").glob("*.yaml")
    assert {path.stem for path in runs if plans.is_packed(path)} == {case[0] for case in RUNS}


@pytest.fixture(scope="module")
def measured(selected, folder, device):
    return Launches(selected(test_plan), lambda case: case[3], lambda ranks, cases: plans.launch(ranks, cases, folder, device))


@pytest.mark.parametrize("case", RUNS, ids=lambda case: f"{case[0]} on {case[3]}")
def test_plan(case, measured, folder, device, record_property):
    planned, found = plans.planned_mib(case, folder, device), measured.of(case)
    record_property("MiB", f"planned {planned:.1f}, measured {found:.1f}, {found / planned:.3f}")
    assert abs(found / planned - 1) <= plans.TOLERANCE, f"planned {planned:.1f} MiB, measured {found:.1f}: {found / planned:.3f}"


# Weights dominate: few tokens, and a vocabulary that is small beside the layers; enough layers that the one matrix which is decoded counts little.
DENSE = plans.SIZES | dict(hidden_size=1024, num_hidden_layers=8, intermediate_size=4096, vocab_size=512, num_key_value_heads=4)
SPARSE = DENSE | dict(num_hidden_layers=4, moe_intermediate_size=512, num_experts=16, num_experts_per_tok=2)
SHAPES = {"dense": ("qwen3-32b", DENSE), "experts": ("qwen3-30b-a3b", SPARSE)}
MOST = 0.45


@pytest.fixture(scope="module")
def peaks(folder, device):
    """By shape, MiB of a LoRA step in bf16 and over nf4."""
    settings = [f"device={device}", "model.dtype=bf16", "tuning.kind=lora", "tuning.rank=8", "tuning.dropout=0",
                "tuning.targets=[q_proj,v_proj]", "data.max_length=64", "run.micro_batch=1", "run.global_batch=1"]
    commands, shapes = [], folder / "shapes"
    shapes.mkdir()
    for model, sizes in SHAPES.values():
        path = plans.model_of((None, model, sizes, 1, []), shapes)
        commands += [["bench", "step", "--model", path, "--steps", 1, *words_of([*settings, *more])]
                     for more in ([], ["model.quantise=nf4"])]
    result = run_many(1, commands)
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == len(commands), failure_text(result)
    taken = [(line["states_gib"] + line["activations_gib"]) * 1024 for line in lines]
    return {name: taken[2 * number:2 * number + 2] for number, name in enumerate(SHAPES)}


@pytest.mark.parametrize("shape", SHAPES)
def test_packed_weights_take_less_than_half(shape, peaks, record_property):
    plain, packed = peaks[shape]
    record_property("MiB", f"bf16 {plain:.1f}, nf4 {packed:.1f}, {packed / plain:.3f}")
    assert packed <= MOST * plain, f"bf16 {plain:.1f} MiB, nf4 {packed:.1f}: {packed / plain:.3f}"
