"""Adapters over packed weights (model.quantise), against PEFT over bitsandbytes: gradients of every trained parameter under every
kind of layout, ten steps of training over its Linear4bit and Linear8bitLt; and over products in e4m3 (model.fp8), against PEFT over the same
products by torch. Where transformers has experts in one tensor, which
bitsandbytes leaves as they are, each expert's matrix is packed and decoded by bitsandbytes beforehand. Launches of one number of
ranks are shared. On device npu with --device npu: passes of each kind of storage and expert, the ten steps, and generation."""
import functools
import json

import pytest

import decoding
import steps
import tiny_models
from gradients import LIMITS, Reference, assert_equals
from lora_adapters import ROWS, gradients
from lora_runs import TRAINED, adapted, grads_words, name_of, read_log, rows, train_rows, train_words  # noqa: F401  fixtures
from packed_peers import (FP8_IN_FULL, NF4, STORAGES, WHOLE_BLOCKS, load_linear4bit, load_linear8bit, load_packed, tuned_over,
                          whole)  # noqa: F401  fixtures
from program import Launches, failure_text, run, run_grads, run_many, words_of

OPTIONS = ("device",)
# adapter, storage, ranks, settings
LAYOUTS = [
    ("all-linear", "fp4", 1, []),
    ("all-linear", "flat nf4", 1, ["memory.recompute=selective"]),
    ("dora", "nf4", 1, []),
    ("phi3", "nf4", 1, []),
    ("deepseek_v3", "nf4", 1, ["memory.recompute=full"]),
    ("qwen2_moe", "nf4", 1, []),
    ("qwen3_next", "nf4", 1, []),
    ("all-linear", "int8", 1, []),
    ("dora", "int8", 1, []),
    ("all-linear", "fp8", 1, []),
    ("phi3", "fp8", 1, ["memory.recompute=full"]),
    ("all-linear", "fp8 in full", 1, []),
    ("phi3", "fp8 in full", 1, ["memory.recompute=selective"]),
    ("all-linear", "flat nf4", 2, ["parallel.tensor=2"]),
    ("all-linear", "fp4", 2, ["parallel.tensor=2", "parallel.sequence=false", "memory.recompute=selective"]),
    ("phi3", "nf4", 2, ["parallel.tensor=2"]),
    ("phi3", "int8", 2, ["parallel.tensor=2"]),
    ("qwen3_5", "nf4", 2, ["parallel.tensor=2"]),
    ("qwen2_moe", "int8", 2, ["parallel.tensor=2", "parallel.expert_tensor=2"]),
    ("rslora", "int8", 2, ["parallel.zero=3"]),
    ("all-linear", "fp8", 2, ["parallel.tensor=2"]),
    ("rslora", "fp8", 2, ["parallel.tensor=2", "parallel.sequence=false"]),
    ("rslora", "fp8", 2, ["parallel.pipeline=2", "parallel.schedule=zero_bubble"]),
    ("rslora", "fp8", 2, ["parallel.zero=3"]),
    ("all-linear", "fp8 in full", 2, ["parallel.tensor=2"]),
    ("all-linear", "fp8 in full", 2, ["parallel.tensor=2", "parallel.sequence=false"]),
    ("all-linear", "fp8 in full", 2, ["parallel.pipeline=2", "parallel.schedule=zero_bubble"]),
    ("all-linear", "fp8 in full", 2, ["parallel.zero=3"]),
    ("dora", "nf4", 2, ["parallel.tensor=2"]),
    ("rslora", "nf4", 2, ["parallel.pipeline=2", "parallel.schedule=zero_bubble"]),
    ("rslora", "nf4", 2, ["parallel.zero=3"]),
    ("rslora", "nf4", 2, ["parallel.context=2"]),
    ("qwen3_moe", "nf4", 2, ["parallel.expert=2", "parallel.zero=3"]),
    ("qwen2_moe", "nf4", 2, ["parallel.tensor=2", "parallel.expert_tensor=2"]),
    ("deepseek_v3", "nf4", 2, ["parallel.tensor=2", "parallel.expert=2"]),
    ("qwen3_moe", "nf4", 4, ["parallel.tensor=2", "parallel.expert=2", "parallel.expert_tensor=2", "parallel.sequence=false"]),
]


# On device npu, where every launch takes long: what decodes differently.
NPU_LAYOUTS = [case for case in LAYOUTS if "fp8" not in case[1] and case[2] < 4 and not {"parallel.context=2", "memory.recompute=full"} & set(case[3])]


def pytest_generate_tests(metafunc):
    if metafunc.function is test_gradients:
        metafunc.parametrize("case", NPU_LAYOUTS if metafunc.config.getoption("device") == "npu" else LAYOUTS, ids=case_name)


def case_name(case):
    return f"{case[1]} {name_of((case[0], *case[2:]))}"


@pytest.fixture(scope="module")
def references(adapted):
    @functools.cache
    def make(adapter, storage):
        tuned = load_packed(adapted(adapter), STORAGES[storage][1])
        loss, tokens = tiny_models.backward(tuned, ROWS)
        in_full = {name: parameter.grad for name, parameter in tuned.named_parameters()}
        wanted = in_full if STORAGES[storage][1] == FP8_IN_FULL else gradients(tuned)
        return Reference(None, None, loss, tokens, tiny_models.norm_of(wanted.values()), wanted)
    return make


@pytest.fixture(scope="module")
def passes(adapted, rows, device, selected):
    def launch(ranks, cases):
        commands = [[*grads_words(adapted(adapter), rows, rows.parent / f"packed-{ranks}-{number}.safetensors",
                                  None if STORAGES[storage][1] == FP8_IN_FULL else adapted(adapter).adapter),
                     *words_of([f"device={device}", *STORAGES[storage][0], *settings])]
                    for number, (adapter, storage, _, settings) in enumerate(cases)]
        return run_grads(ranks, commands)
    return Launches(selected(test_gradients), lambda case: case[2], launch)


# A number that is as near to two codes of e4m3 goes to one or the other by the rounding of the sum that it is, and then differs by
# a sixteenth; what follows from it is as near to other codes, so that a few tokens differ in every layer after it.
FP8_LIMITS = {"loss": 1e-4, "gradient": 6e-2, "grad_norm": 3e-2}


def test_gradients(case, passes, references, record_errors):
    assert_equals(passes.of(case), references(*case[:2]), record_errors, FP8_LIMITS if "fp8" in case[1] else LIMITS)


# Ten steps. adapter, ranks, settings
STEPS = [
    ("linear4bit", 1, []),
    ("linear8bit", 1, []),
    ("qwen3_moe", 1, ["memory.recompute=selective"]),
    ("linear4bit", 2, ["parallel.tensor=2"]),
    ("linear4bit", 2, ["parallel.pipeline=2"]),
    ("linear4bit", 2, ["parallel.zero=3"]),
    ("qwen3_moe", 2, ["parallel.expert=2"]),
    ("qwen3_moe", 2, ["parallel.tensor=2", "parallel.expert_tensor=2"]),
]


@pytest.fixture(scope="module")
def step_runs(adapted, whole, train_rows, device, selected):
    of = lambda name: (whole if name in WHOLE_BLOCKS else adapted)(name)

    def launch(ranks, cases):
        outputs = [train_rows.parent / f"packed-steps-{ranks}-{number}" for number in range(len(cases))]
        commands = [train_words(of(adapter), train_rows, output,
                                [f"device={device}", f"tuning.adapters={of(adapter).adapter}",
                                 *STORAGES["int8" if adapter == "linear8bit" else "nf4"][0], *settings])
                    for output, (adapter, _, settings) in zip(outputs, cases)]
        result = run_many(ranks, commands)
        return [(output, result) for output in outputs]
    return Launches(selected(test_ten_steps), lambda case: case[1], launch)


@pytest.fixture(scope="module")
def step_references(adapted, whole):
    rows = [row for row in TRAINED if tiny_models.trained_tokens([row]) > 0]

    @functools.cache
    def make(adapter):
        if adapter in WHOLE_BLOCKS:
            load = load_linear8bit if adapter == "linear8bit" else load_linear4bit
            model = tuned_over(load(whole(adapter).model), whole(adapter).fused)
        else:
            model = load_packed(adapted(adapter), NF4)
        return steps.reference(model, rows, steps.COSINE)
    return make


@pytest.mark.parametrize("case", STEPS, ids=name_of)
def test_ten_steps(case, step_runs, step_references, record_errors):
    output, result = step_runs.of(case)
    assert (output / "final").exists(), failure_text(result)
    steps.assert_curve(read_log(output), step_references(case[0]), steps.LIMITS, record_errors)


# Generation: adapter, storage, ranks, settings. In full there is no adapter: the weights themselves are stored in e4m3.
WRITERS = [("deepseek_v3", "nf4", 1, []), ("dora", "nf4", 1, []), ("all-linear", "fp8", 1, []), ("all-linear", "fp8 in full", 1, []),
           ("qwen3_moe", "nf4", 2, ["parallel.tensor=2", "parallel.expert_tensor=2"]),
           ("all-linear", "fp8 in full", 2, ["parallel.tensor=2"]), ("phi3", "fp8 in full", 2, ["parallel.pipeline=2"])]


@pytest.fixture(scope="module")
def writers(adapted, folder, device, selected):
    """Tokens of each case, those of PEFT over the decoded weights where it is sure of them, and how the launch ended."""
    def launch(ranks, cases):
        wanted, commands = [], []
        for name, storage, _, settings in cases:
            words, kind = STORAGES[storage]
            tuned = load_packed(adapted(name), kind)
            adapter = [] if kind == FP8_IN_FULL else ["--adapters", adapted(name).adapter]
            written = [(row, *decoding.likeliest(tuned, row["input_ids"])) for row in ROWS]
            clear = [(row, tokens) for row, tokens, margin in written if margin > decoding.CLEAR]
            rows = folder / f"write-{len(wanted)}-{ranks}.jsonl"
            tiny_models.write_rows(rows, [row for row, _ in clear])
            wanted.append([tokens for _, tokens in clear])
            commands.append(["generate", "--model", adapted(name).model, *adapter, "--rows", rows, "--max-new-tokens",
                             decoding.NEW, *words_of([f"device={device}", "model.dtype=fp32", *words, *settings])])
        result = run_many(ranks, commands)
        lines = iter(json.loads(line)["output_ids"] for line in result.stdout.splitlines() if line.startswith("{"))
        return [([tokens for _, tokens in zip(right, lines)], right, result) for right in wanted]
    return Launches(selected(test_generates_as_peft_does), lambda case: case[2], launch)


@pytest.mark.parametrize("case", WRITERS, ids=case_name)
def test_generates_as_peft_does(case, writers):
    tokens, wanted, result = writers.of(case)
    assert len(wanted) > 2 and tokens == wanted, failure_text(result)[-2000:]


# settings of a run, what the line must say
REFUSED = [
    (["model.quantise=nf4", "tuning.kind=full"], ["model.quantise", "tuning.kind: lora"]),
    (["model.quantise=nf4", "tuning.init=pissa"], ["model.quantise", "tuning.init: lora"]),
    (["model.quantise=nf4", "tuning.modules_to_save=[o_proj]", "tuning.targets=[q_proj]"],
     ["o_proj is packed", "model.quantise_except"]),
    (["model.quantise=nf4", "model.quantise_block=48"], ["model.quantise_block = 48", "wanted 32, 64"]),
    (["model.quantise=nf4", "model.quantise_except=[q_proj]"], ["cannot be packed without", "q_proj.weight"]),
    (["model.quantise=nf4", "model.quantise_except=[q_porj]"], ["model.quantise_except: 'q_porj'", "nearest: 'q_proj'"]),
    (["model.quantise=int8", "model.quantise_block=128"], ["model.quantise_block = 128 is for model.quantise nf4 or fp4, not int8"]),
    (["model.quantise=int8", "tuning.kind=freeze", "tuning.targets=[q_proj]"], ["model.quantise", "tuning.kind: lora"]),
    (["model.quantise=int8", "tuning.kind=full"], ["model.quantise", "tuning.kind: lora"]),
    (["model.fp8=rows", "model.quantise=nf4"], ["model.fp8", "model.quantise", "leave one of them out"]),
    (["model.fp8=blocks"], ["model.fp8", "blocks is not supported yet", "use rows"]),
    (["model.fp8_skip=[q_proj]"], ["model.fp8_skip", "model.fp8 rows"]),
    (["model.fp8=rows", "model.fp8_skip=[q_proj]"], ["model.fp8_skip", "cannot be packed without", "q_proj.weight"]),
    (["model.fp8=rows", "device=npu"], ["model.fp8", "Ascend 950"]),
    (["model.fp8=rows", "parallel.tensor=4"], ["model.fp8", "parallel.tensor = 4", "choose at most 2"]),
    (["model.fp8=rows", "model.fp8_skip=[q_proj, k_proj, v_proj]", "parallel.tensor=4"], ["model.fp8", "24 on each rank", "multiple of 16"]),
    (["model.quantise=q4_k"], ["model.quantise", "q4_k", "nf4"]),
    (["model.quantise_block=128"], ["model.quantise_block = 128 is for model.quantise nf4 or fp4, not none"]),
]


@pytest.mark.devices("cpu")
@pytest.mark.parametrize("settings, texts", REFUSED, ids=[" ".join(case[0]) for case in REFUSED])
def test_refused(settings, texts, adapted, train_rows):
    result = run(None, train_words(adapted("all-linear"), train_rows, train_rows.parent / "refused", settings))
    assert result.returncode == 2, failure_text(result)
    for text in texts:
        assert text in result.stderr, f"{text!r} is not in: {failure_text(result)}"
