"""Attention on device npu is always fused: every family, with plain and packed rows, under each context method, and in
generation, calls only operators of the list, and none of them with a tensor as large as a score matrix. And packed rows
take the memory of plain ones. Values are compared by grads_test and generate_test; here the twin counts. Without --full
each family but those near another (layouts.py) runs once on one rank, with plain and packed rows in turn, and one family of each kind of attention (grouped
heads, latent, windows, sinks) under every method and in generation: beyond that families do not differ in what is called.
A vision tower's attention is fused as well: both ways, over whole images and windows of them."""
import itertools
import json

import pytest

import layouts
import seeing_models
import tiny_models
from program import failure_text, run_many, words_of

LENGTH = 1024
HEADS = 4
FAMILIES = [family for family in tiny_models.FAMILIES if family not in layouts.NOT_ON_NPU]
NEAR = layouts.NEAR_MODELS
METHODS = {"ring": 2, "ulysses": 2, "hybrid": 4}  # and their ranks
SEEING = ("qwen2_5_vl", "qwen3_vl")
SIDE = 32  # patches of an image, as many as the rows are long
FUSED = "aclnnFlashAttentionVarLenScore"
OPTIONS = ("full",)
KINDS = ("plain", "packed")
OF_EACH_KIND = ("qwen3", "deepseek_v3", "mistral", "gpt_oss")
# Heads of sizes that generation's operator takes, and others, and latents in both types.
GENERATED = [("llama", "bf16"), ("qwen3", "bf16"), ("deepseek_v2", "bf16"), ("deepseek_v3", "fp32"), ("mistral", "bf16"),
             ("gpt_oss", "bf16"), ("qwen3_next", "bf16")]


@pytest.fixture(scope="module")
def pairs(request):
    """A function: the families and kinds of rows to run, under a context method or without one."""
    def choose(method=None):
        if request.config.getoption("full"):
            return list(itertools.product(FAMILIES, KINDS))
        if method is None:
            return list(zip((family for family in FAMILIES if family not in NEAR), itertools.cycle(KINDS)))
        first = list(METHODS).index(method)
        return list(zip(OF_EACH_KIND, itertools.islice(itertools.cycle(KINDS), first, None)))
    return choose


def score_bytes(method):
    """Of the scores that one rank would hold for one step of the method, in fp32: all heads or half of them, all tokens
    or half of them against as many."""
    heads = HEADS // 2 if method in ("ulysses", "hybrid") else HEADS
    tokens = LENGTH // 2 if method in ("ring", "hybrid") else LENGTH
    return 4 * heads * tokens * tokens


@pytest.fixture(scope="module")
def models(request, folder):
    """A small model of each family that takes long rows."""
    for family in FAMILIES:
        if family in NEAR and not request.config.getoption("full"):
            continue
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


@pytest.fixture(scope="module")
def seeing(folder):
    """Commands: small models that see, with an image whose scores, of 4 heads in the tower, are as large as those of a row."""
    assert SIDE * SIDE == LENGTH and seeing_models.TOWER["num_heads"] == HEADS
    here = folder / "seeing"
    here.mkdir()
    seeing_models.write_rows(here / "rows.jsonl", seeing_models.make_rows([[7, (1, SIDE, SIDE), 9]]))
    for family in SEEING:
        config = seeing_models.config_of(family, layers=2)
        config.text_config.max_position_embeddings = LENGTH
        seeing_models.write_model(config, here / family)
    return [["grads", "--model", here / family, "--rows", here / "rows.jsonl", "--out", here / "gradients.safetensors",
             *words_of(["device=npu", "model.dtype=fp32"])] for family in SEEING]


LIST = ["check", "--npu-ops", "--json"]


def json_lines(result):
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


def lists_of(result):
    """What rank 0 had called at each LIST among the commands."""
    assert result.returncode == 0, failure_text(result)
    return [[entry for entry in line["operators"] if entry["calls"] > 0] for line in json_lines(result) if "operators" in line]


def called_since(before, after):
    calls = {entry["name"]: entry["calls"] for entry in before}
    return [entry for entry in after if entry["calls"] > calls.get(entry["name"], 0)]


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


def generated(models, folder, full):
    """Prompts of different length."""
    prompts = [{"input_ids": [1 + index % 1000 for index in range(size)]} for size in (LENGTH, 3, 700)]
    tiny_models.write_rows(folder / "prompts.jsonl", prompts)
    cases = itertools.product(FAMILIES, ("bf16", "fp32")) if full else GENERATED
    return [["generate", "--model", models / family, "--rows", folder / "prompts.jsonl", "--max-new-tokens", "3",
             *words_of(["device=npu", f"model.dtype={dtype}"])] for family, dtype in cases]


def bench(models, *words):
    return ["bench", "step", "--model", models / "qwen3", "--steps", "1", *words, *words_of(
        ["device=npu", "data.max_length=4096", "run.global_batch=1", "run.micro_batch=1", "tuning.kind=full"])]


@pytest.fixture(scope="module")
def one_rank(request, models, rows, pairs, seeing, folder):
    """One launch for all that takes one rank: its lists of operators, and what bench said."""
    settings = itertools.cycle(["memory.recompute=none", "memory.recompute=selective", "memory.recompute=full"])
    trained = [grads(models, rows, family, kind, setting) for (family, kind), setting in zip(pairs(), settings)]
    decoded = generated(models, folder, request.config.getoption("full"))
    # The longest rows come last: the lists have the largest tensors so far.
    result = run_many(None, [*trained, *seeing, LIST, *decoded, LIST, bench(models), bench(models, "--documents", "5")])
    return lists_of(result), [line for line in json_lines(result) if "activations_gib" in line]


def test_on_one_rank(one_rank):
    assert_fused(one_rank[0][0], "none")


@pytest.mark.parametrize("method", METHODS)
def test_under_context_methods(models, rows, pairs, method):
    parallel = [f"parallel.context={METHODS[method]}", f"parallel.context_method={method}"]
    commands = [grads(models, rows, family, kind, *parallel) for family, kind in pairs(method)]
    assert_fused(lists_of(run_many(METHODS[method], [*commands, LIST]))[0], method)


def test_in_generation(one_rank):
    operators = called_since(*one_rank[0])
    assert_fused(operators, "none")
    assert "aclnnFusedInferAttentionScoreV3" in {entry["name"] for entry in operators}


def test_packed_rows_take_the_memory_of_plain_ones(one_rank):
    plain, packed = one_rank[1]
    assert packed["activations_gib"] <= 1.05 * plain["activations_gib"]
    assert packed["peak_memory_gib"] <= 1.05 * plain["peak_memory_gib"]
