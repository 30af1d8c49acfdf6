"""Attention on device npu is always fused: every family, with plain and packed rows, under each context method, and in
generation, calls only operators of the list, and none of them with a tensor as large as a score matrix. And packed rows
take the memory of plain ones. Values are compared by grads_test and generate_test; here the twin counts. Without --full
each family runs once per test, with plain and packed rows in turn, and one of each kind of heads (grouped, latent) with
both under every method."""
import itertools
import json

import pytest

import tiny_models
from program import BUILD, failure_text, run_many, start, words_of

LENGTH = 1024
HEADS = 4
FAMILIES = list(tiny_models.FAMILIES)
METHODS = {"ring": 2, "ulysses": 2, "hybrid": 4}  # and their ranks
FUSED = "aclnnFlashAttentionVarLenScore"
OPTIONS = ("full",)
KINDS = ("plain", "packed")
BOTH_KINDS = ("qwen3", "deepseek_v3")


@pytest.fixture(scope="module")
def pairs(request):
    """A function: the families and kinds of rows to run, under a context method or without one."""
    every, in_turn = list(itertools.product(FAMILIES, KINDS)), list(zip(FAMILIES, itertools.cycle(KINDS)))

    def choose(method=None):
        if request.config.getoption("full"):
            return every
        if method is None:
            return in_turn
        own = FAMILIES[list(METHODS).index(method)::len(METHODS)]
        return [(family, kind) for family, kind in every if family in BOTH_KINDS or (family in own and kind == "packed")]
    return choose


def score_bytes(method):
    """Of the scores that one rank would hold for one step of the method, in fp32: all heads or half of them, all tokens
    or half of them against as many."""
    heads = HEADS // 2 if method in ("ulysses", "hybrid") else HEADS
    tokens = LENGTH // 2 if method in ("ring", "hybrid") else LENGTH
    return 4 * heads * tokens * tokens


@pytest.fixture(scope="module")
def models(folder):
    """A small model of each family that takes long rows."""
    for family in FAMILIES:
        tiny_models.write_model(
            tiny_models.config_of(family, num_hidden_layers=2, max_position_embeddings=LENGTH + 64), folder / family)
    return folder


@pytest.fixture(scope="module")
def rows(folder):
    """One row of one document, and the same of several."""
    row = tiny_models.make_rows(count=1, shortest=LENGTH, longest=LENGTH + 1)[0]
    tiny_models.write_rows(folder / "plain.jsonl", [row])
    tiny_models.write_rows(folder / "packed.jsonl", [row | {"starts": [0, 1, 300, 301, 900]}])
    return folder


def operators_after(ranks, commands):
    """What rank 0 has called when all commands have run."""
    result = run_many(ranks if ranks > 1 else None, [*commands, ["check", "--npu-ops", "--json"]])
    assert result.returncode == 0, failure_text(result)
    return [entry for entry in json.loads(result.stdout.splitlines()[-1])["operators"] if entry["calls"] > 0]


def assert_fused(operators, method):
    names = {entry["name"] for entry in operators}
    assert FUSED in names, f"not fused: {sorted(names)}"
    unknown = [entry["name"] for entry in operators if not entry["used"]]
    assert not unknown, f"called, but not in core/npu/used_operators.inc: {unknown}"
    large = {entry["name"]: entry["largest_bytes"] for entry in operators if entry["largest_bytes"] >= score_bytes(method)}
    assert not large, f"as large as the scores, {score_bytes(method)} bytes: {large}"


def grads(models, rows, family, kind, *settings):
    return ["grads", "--model", models / family, "--rows", rows / f"{kind}.jsonl", "--out", models / "gradients.safetensors",
            *words_of(["device=npu", "model.dtype=fp32", *settings])]


def test_on_one_rank(models, rows, pairs):
    settings = itertools.cycle(["memory.recompute=none", "memory.recompute=selective", "memory.recompute=full"])
    commands = [grads(models, rows, family, kind, setting) for (family, kind), setting in zip(pairs(), settings)]
    assert_fused(operators_after(1, commands), "none")


@pytest.mark.parametrize("method", METHODS)
def test_under_context_methods(models, rows, pairs, method):
    parallel = [f"parallel.context={METHODS[method]}", f"parallel.context_method={method}"]
    commands = [grads(models, rows, family, kind, *parallel) for family, kind in pairs(method)]
    assert_fused(operators_after(METHODS[method], commands), method)


def test_in_generation(models, folder, pairs):
    """Prompts of different length; heads that the operator for generation takes, and others."""
    prompts = [{"input_ids": [1 + index % 1000 for index in range(size)]} for size in (LENGTH, 3, 700)]
    tiny_models.write_rows(folder / "prompts.jsonl", prompts)
    commands = [["generate", "--model", models / family, "--rows", folder / "prompts.jsonl", "--max-new-tokens", "3",
                 *words_of(["device=npu", f"model.dtype={dtype}"])]
                for family, dtype in ((family, "bf16" if kind == "plain" else "fp32") for family, kind in pairs())]
    operators = operators_after(1, commands)
    assert_fused(operators, "none")
    assert "aclnnFusedInferAttentionScoreV3" in {entry["name"] for entry in operators}


def bench(models, *words):
    result = start(None, [BUILD / "trireme", "bench", "step", "--model", models / "qwen3", "--steps", "1", *words, *words_of(
        ["device=npu", "data.max_length=4096", "run.global_batch=1", "run.micro_batch=1", "tuning.kind=full"])])
    assert result.returncode == 0, failure_text(result)
    return json.loads(result.stdout.splitlines()[-1])


def test_packed_rows_take_the_memory_of_plain_ones(models):
    plain, packed = bench(models), bench(models, "--documents", "5")
    assert packed["activations_gib"] <= 1.05 * plain["activations_gib"]
    assert packed["peak_memory_gib"] <= 1.05 * plain["peak_memory_gib"]
