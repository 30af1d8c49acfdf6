"""Memory by layout, as torch's allocator counts it: activations fall as 1 / context, experts' weights, gradients and
optimizer states as 1 / (expert · expert_tensor), each within 10 %."""
import json

import pytest

from program import Launches, failure_text, run_many, words_of

CONFIG = dict(
    model_type="qwen3_moe", hidden_size=128, num_hidden_layers=6, num_attention_heads=8, num_key_value_heads=4,
    head_dim=16, intermediate_size=128, moe_intermediate_size=128, num_experts=8, num_experts_per_tok=2,
    norm_topk_prob=True, vocab_size=256, tie_word_embeddings=False, rms_norm_eps=1e-6, hidden_act="silu",
    rope_theta=10000.0, max_position_embeddings=4096, decoder_sparse_step=1, mlp_only_layers=[])
TOKENS = 2048
# Zero 0: what a rank has does not also fall by the number of ranks that share it.
COMMON = ["tuning.kind=full", "parallel.zero=0", "run.micro_batch=1"]
# what falls, ranks, by which factor, settings; the first of each is what the others are compared with
CASES = [
    ("activations", 1, 1, []),
    ("activations", 2, 2, ["parallel.context=2", "parallel.context_method=ring"]),
    ("activations", 2, 2, ["parallel.context=2", "parallel.context_method=ulysses"]),
    ("activations", 4, 4, ["parallel.context=4", "parallel.context_method=ring"]),
    ("activations", 4, 4, ["parallel.context=4", "parallel.context_method=ulysses"]),
    ("activations", 4, 4, ["parallel.context=4", "parallel.context_method=hybrid", "parallel.ulysses=2"]),
    ("experts", 1, 1, []),
    ("experts", 2, 2, ["parallel.expert=2"]),
    ("experts", 2, 2, ["parallel.tensor=2", "parallel.expert_tensor=2"]),
    ("experts", 4, 4, ["parallel.expert=4"]),
    ("experts", 4, 4, ["parallel.tensor=2", "parallel.expert_tensor=2", "parallel.expert=2"]),
]
WIDTHS = (128, 256)  # of experts: the difference has nothing else in it
TOLERANCE = 0.1


@pytest.fixture(scope="module")
def models(folder):
    for width in WIDTHS:
        (folder / str(width)).mkdir()
        (folder / str(width) / "config.json").write_text(json.dumps(CONFIG | dict(moe_intermediate_size=width)))
    return [folder / str(width) for width in WIDTHS]


def measure(ranks, steps):
    """The line of `bench step` for each of `steps`: a model, tokens per row, rows, settings."""
    result = run_many(ranks, [["bench", "step", "--model", model, "--steps", 1, *words_of(
        [*COMMON, f"data.max_length={tokens}", f"run.global_batch={rows}", *settings])]
        for model, tokens, rows, settings in steps])
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(lines) == len(steps), failure_text(result)
    return iter(lines)


def gib_of(what, lines):
    if what == "activations":
        return next(lines)["activations_gib"]
    narrow, wide = next(lines)["states_gib"], next(lines)["states_gib"]
    return wide - narrow


def launch(ranks, cases, models):
    """GiB of each case."""
    lines = measure(ranks, [step for what, _, _, settings in cases for step in (
        [(models[0], TOKENS, 1, settings)] if what == "activations" else [(model, 64, ranks, settings) for model in models])])
    return [gib_of(what, lines) for what, *_ in cases]


@pytest.fixture(scope="module")
def memory(models):
    return Launches(CASES, lambda case: case[1], lambda ranks, cases: launch(ranks, cases, models))


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join([case[0], f"{case[1]} ranks", *case[3]]))
def test_memory(case, memory, record_property):
    what, _, parts, _ = case
    one, share = memory.of(next(first for first in CASES if first[0] == what)), memory.of(case)
    ratio = share * parts / one
    record_property("MiB", f"{share * 1024:.1f} of {one * 1024:.1f} on one rank, {ratio:.3f} x 1/{parts}")
    assert abs(ratio - 1) <= TOLERANCE, f"{share * 1024:.1f} MiB of {one * 1024:.1f} on one rank is {ratio:.3f} x 1/{parts}"
