"""LoRA, against PEFT: gradients of every trained parameter under every kind of layout, ten steps of training, what a run
leaves behind, and what resumes from it. PEFT's adapters are read in both of its namings of experts."""
import functools
import json
import warnings

import pytest
import torch
import transformers
from safetensors.torch import load_file

import decoding
import steps
import tiny_models
from gradients import assert_equals, assert_within, largest_error, relative
from lora_adapters import ADAPTERS, ROWS, Adapted, load_frozen, load_tuned, make_model
from lora_runs import TRAINED, adapted, grads_words, name_of, read_log, rows, train_rows, train_words  # noqa: F401  fixtures
from program import Launches, failure_text, run, run_grads, run_many, words_of

NPU = "device=npu"  # in a process of its own: torch sets its threads up for the devices it finds first
# adapter, ranks, settings; data parallel is what remains
LAYOUTS = [
    *((adapter, 1, []) for adapter in ADAPTERS),
    ("all-linear", 1, ["memory.recompute=selective"]),
    ("deepseek_v3", 1, ["memory.recompute=full"]),
    ("qwen3_moe", 1, ["memory.recompute=selective"]),
    ("qwen3_moe", 1, [NPU]),
    ("all-linear", 2, ["parallel.tensor=2", "memory.recompute=selective"]),
    ("patterns", 2, ["parallel.tensor=2", "parallel.sequence=false"]),
    ("dora", 1, ["memory.recompute=full"]),
    ("dora", 2, ["parallel.tensor=2"]),
    ("dora", 2, ["parallel.tensor=2", "parallel.sequence=false", "memory.recompute=selective"]),
    ("dora", 2, ["parallel.context=2", "parallel.zero=3"]),
    ("dora of latents", 2, ["parallel.tensor=2"]),
    ("dora of one qkv", 2, ["parallel.tensor=2"]),
    ("rslora", 2, ["parallel.pipeline=2", "parallel.schedule=zero_bubble"]),
    ("rslora", 2, ["parallel.zero=3"]),
    ("all-linear", 2, ["parallel.zero=2", "memory.recompute=full"]),
    ("rslora", 2, ["parallel.context=2"]),
    ("qwen3_moe", 2, ["parallel.expert=2", "parallel.zero=3"]),
    ("qwen2_moe", 2, ["parallel.tensor=2", "parallel.expert_tensor=2"]),
    ("deepseek_v3", 2, ["parallel.tensor=2", "parallel.expert=2"]),
    ("qwen3_moe", 4, ["parallel.tensor=2", "parallel.expert=2", "parallel.expert_tensor=2", "parallel.sequence=false"]),
    ("qwen2_moe", 4, ["parallel.context=2", "parallel.pipeline=2", "parallel.expert=2", "parallel.zero=2"]),
    ("patterns", 4, ["parallel.tensor=4", "parallel.sequence=true"]),
    ("qwen3_next", 2, ["parallel.tensor=2", "parallel.expert=2"]),
    ("qwen3_5", 2, ["parallel.tensor=2", "memory.recompute=selective"]),
]


def dropout_words(adapted, rows, device):
    """A pass that drops the adapters' inputs, at experts too, and hidden values."""
    one = adapted("qwen3_moe")
    return [*grads_words(one, rows, rows.parent / f"dropout-{device}.safetensors", one.adapter),
            *words_of([f"device={device}", "tuning.dropout=0.3", "tuning.hidden_dropout=0.2"])]


def launch_gradients(ranks, npu, cases, adapted, rows):
    """Outcomes of the cases; a launch of one rank has the pass that drops besides."""
    commands = []
    for number, (adapter, _, settings) in enumerate(cases):
        one = adapted(adapter)
        out = rows.parent / f"{'npu' if npu else ranks}-{number}.safetensors"
        commands.append([*grads_words(one, rows, out, one.adapter), *words_of(settings)])
    if ranks == 1:
        commands.append(dropout_words(adapted, rows, "npu" if npu else "cpu"))
    return run_grads(ranks, commands)


@pytest.fixture(scope="module")
def gradients(adapted, rows):
    """One launch per number of ranks, and one for device npu."""
    return Launches(LAYOUTS, lambda case: (case[1], NPU in case[2]),
                    lambda key, cases: launch_gradients(*key, cases, adapted, rows))


@pytest.mark.parametrize("case", LAYOUTS, ids=name_of)
def test_gradients(case, gradients, adapted, record_errors):
    assert_equals(gradients.of(case), adapted(case[0]).reference, record_errors)


def test_dropout_on_npu_is_that_on_cpu(gradients, rows, record_errors):
    """The npu's kernels drop what the cpu's loops drop."""
    for settings in ([], [NPU]):  # the launches that leave the files
        gradients.of(next(case for case in LAYOUTS if case[1] == 1 and case[2] == settings))
    found, wanted = (load_file(rows.parent / f"dropout-{device}.safetensors") for device in ("npu", "cpu"))
    errors = {"gradient": largest_error(found, wanted)}
    record_errors(errors)
    assert_within(errors, {"gradient": 1e-4})


OF_EXPERTS = [name for name, (_, _, settings) in ADAPTERS.items() if "target_parameters" in settings]


@pytest.fixture(scope="module")
def fused(adapted, rows):
    """Outcomes by adapter, from files with experts in one tensor; one launch."""
    commands = [grads_words(adapted(name), rows, rows.parent / f"fused-{name}.safetensors", adapted(name).fused)
                for name in OF_EXPERTS]
    return dict(zip(OF_EXPERTS, run_grads(None, commands)))


@pytest.mark.parametrize("name", OF_EXPERTS)
def test_experts_in_one_tensor(name, fused, adapted, record_errors):
    """Gate and up then share A, which the program reads as one for each."""
    outcome, reference = fused[name], adapted(name).reference
    assert outcome.line is not None and outcome.result.returncode == 0, failure_text(outcome.result)
    found = load_file(outcome.out)
    own = [key for key in found if "down_proj" in key or "w2" in key or "self_attn" in key]
    errors = {"loss": relative(outcome.line["loss"], reference.loss),
              "gradient": max(relative(found[key], reference.gradients[key]) for key in own)}
    record_errors(errors)
    assert_within(errors, {"loss": 1e-5, "gradient": 1e-4})


@pytest.mark.parametrize("name", ["mixtral", "deepseek_v3"])
def test_peft_reads_experts_one_by_one(name, adapted, record_errors):
    """It makes one tensor of them."""
    errors = {"loss": relative(tiny_models.loss_of(load_tuned(adapted(name), False), ROWS), adapted(name).reference.loss)}
    record_errors(errors)
    assert_within(errors, {"loss": 1e-6})


def assert_refused(texts, words):
    result = run(None, words)
    assert result.returncode == 2, failure_text(result)
    for text in texts:
        assert text in result.stderr, f"{text!r} is not in: {failure_text(result)}"


# name, settings, the adapter of which model, what the line must say
REFUSED = [
    ("an unknown target", ["tuning.kind=lora", "tuning.targets=[q_porj]"], None,
     ["tuning.targets: 'q_porj'", "nearest: 'q_proj'"]),
    ("a target without an adapter", ["tuning.kind=lora", "tuning.targets=[embed_tokens]"], None,
     ["embed_tokens", "modules_to_save"]),
    ("an adapter of another model", [], "deepseek_v3", ["self_attn.kv_a_proj_with_mqa' is not a module of the model"]),
    ("an adapter of another size", [], "patterns", ["q_proj.lora_B.weight' is [96, 2]", "requires [64, 2]"]),
    ("a part of a fused matrix", ["tuning.kind=freeze", "tuning.targets=[q_proj]"], None,
     ["q_proj.weight cannot be trained without", "k_proj.weight"]),
]


@pytest.mark.parametrize("settings, adapter, texts", [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_refused(settings, adapter, texts, adapted, rows):
    words = grads_words(adapted("rslora"), rows, rows.parent / "x.safetensors", adapter and adapted(adapter).adapter)
    assert_refused(texts, [*words, *words_of(settings)])


# Ten steps. adapter (or "freeze"), ranks, settings
STEPS = [
    ("all-linear", 1, []),
    ("qwen3_moe", 1, ["memory.recompute=selective"]),
    ("freeze", 1, []),
    ("rslora", 1, []),
    ("dora", 1, []),
    ("dora", 2, ["parallel.tensor=2"]),
    ("dora", 2, ["parallel.pipeline=2", "parallel.zero=1"]),
    ("dora", 2, ["parallel.zero=3"]),
    ("rslora", 2, ["parallel.pipeline=2"]),
    ("all-linear", 2, ["parallel.tensor=2"]),
    ("all-linear", 2, ["parallel.pipeline=2"]),
    ("all-linear", 2, ["parallel.zero=3"]),
    ("freeze", 2, ["parallel.pipeline=2"]),
    ("freeze", 2, ["parallel.zero=3"]),
    ("qwen3_moe", 2, ["parallel.expert=2"]),
    ("qwen3_moe", 2, ["parallel.tensor=2", "parallel.expert_tensor=2"]),
]
FROZEN = ["tuning.kind=freeze", "tuning.last_layers=2", "tuning.targets=[all]", "tuning.modules_to_save=[lm_head]"]


def launch_steps(ranks, cases, adapted, train_rows):
    """The output of each case's run, and how the launch ended."""
    outputs = [train_rows.parent / f"steps-{ranks}-{number}" for number in range(len(cases))]
    commands = []
    for output, (adapter, _, settings) in zip(outputs, cases):
        one = adapted("all-linear" if adapter == "freeze" else adapter)
        tuning = FROZEN if adapter == "freeze" else [f"tuning.adapters={one.adapter}"]
        commands.append(train_words(one, train_rows, output, [*tuning, *settings]))
    result = run_many(ranks, commands)
    return [(output, result) for output in outputs]


@pytest.fixture(scope="module")
def step_runs(adapted, train_rows):
    return Launches(STEPS, lambda case: case[1], lambda ranks, cases: launch_steps(ranks, cases, adapted, train_rows))


@pytest.fixture(scope="module")
def step_references(adapted):
    """By adapter, made when first asked for: PEFT's log, and its model after ten steps."""
    rows = [row for row in TRAINED if tiny_models.trained_tokens([row]) > 0]

    @functools.cache
    def make(adapter):
        model = load_frozen(adapted("all-linear")) if adapter == "freeze" else load_tuned(adapted(adapter))
        return steps.reference(model, rows, steps.COSINE), model
    return make


@pytest.mark.parametrize("case", STEPS, ids=name_of)
def test_ten_steps(case, step_runs, step_references, record_errors):
    output, result = step_runs.of(case)
    assert (output / "final").exists(), failure_text(result)
    steps.assert_curve(read_log(output), step_references(case[0])[0], steps.LIMITS, record_errors)


ON_ONE_RANK = {case[0]: case for case in STEPS if case[1] == 1}
FINALS = [name for name in ON_ONE_RANK if name != "freeze"]


@pytest.fixture(scope="module")
def finals(adapted, rows, step_runs):
    """Outcomes by adapter, of the program with its own final/; one launch."""
    commands = [grads_words(adapted(name), rows, rows.parent / f"final-{name}.safetensors",
                            step_runs.of(ON_ONE_RANK[name])[0] / "final") for name in FINALS]
    return dict(zip(FINALS, run_grads(None, commands)))


@pytest.mark.parametrize("name", FINALS)
def test_peft_reads_final(name, finals, adapted, step_runs, step_references, record_errors):
    """The loss is the program's, and the values are those that PEFT would have got."""
    outcome = finals[name]
    assert outcome.line is not None, failure_text(outcome.result)
    tuned = load_tuned(adapted(name)._replace(adapter=step_runs.of(ON_ONE_RANK[name])[0] / "final"), trainable=False)
    found = dict(tuned.named_parameters())
    parts = {key: relative(found[key].detach(), value.detach())
             for key, value in step_references(name)[1].named_parameters() if value.requires_grad}
    worst = max(parts, key=parts.get)
    errors = {"loss": relative(outcome.line["loss"], tiny_models.loss_of(tuned, ROWS)), "values": parts[worst]}
    record_errors(errors)
    assert_within(errors, {"loss": 1e-5, "values": 1e-3}, worst)


def test_final_of_a_frozen_run_is_a_model(adapted, step_runs, step_references, record_errors):
    output, _ = step_runs.of(ON_ONE_RANK["freeze"])
    frozen = transformers.AutoModelForCausalLM.from_pretrained(output / "final", dtype=torch.float32)
    before = load_frozen(adapted("all-linear"))
    changed = [name for (name, a), (_, b) in zip(frozen.named_parameters(), before.named_parameters(), strict=True)
               if not b.requires_grad and not torch.equal(a, b)]
    assert not changed, f"not the base's: {changed}"
    errors = {"loss": relative(tiny_models.loss_of(frozen, ROWS), tiny_models.loss_of(step_references("freeze")[1], ROWS))}
    record_errors(errors)
    assert_within(errors, {"loss": 1e-4})


# Runs that adapt every projection of a model with experts. family, changes of the model, settings
WHOLE = [
    ("deepseek_v3", {}, ["tuning.targets=[all-linear, gate]"]),
    ("deepseek_v2", {}, ["tuning.rslora=true"]),
    ("qwen2_moe", {}, ["tuning.targets=[all-linear, shared_expert_gate]"]),
    ("qwen3_moe", {}, ["tuning.rank=3"]),
    ("mixtral", {}, ["tuning.targets=[all-linear, gate]", "tuning.rslora=true"]),
    ("qwen3_moe", {}, ["tuning.targets=[up_proj, q_proj]"]),
    ("deepseek_v3", {}, ["tuning.targets=[shared_experts.gate_proj, layers.0.mlp.up_proj]"]),
]


@pytest.fixture(scope="module")
def whole(folder, rows, train_rows):
    """The runs, and the lines of the program with final/, the checkpoint, and experts one by one; one launch."""
    runs, commands = [], []
    for number, (family, changes, settings) in enumerate(WHOLE):
        model, output = folder / f"whole-model-{number}", folder / f"whole-{number}"
        make_model(model, family, changes)
        one = Adapted(model, output / "final", None, None)
        commands.append(train_words(one, train_rows, output, [
            "run.steps=6", "optimizer.lr=0.05", "tuning.rank=4", "tuning.alpha=12", "save.every=6", *settings]))
        saved, apart = output / "checkpoint-6", folder / f"apart-{number}"
        commands.append(["convert", "--from", saved, "--to", apart, "--experts-apart"])
        commands += [grads_words(one, rows, folder / f"grads-{name}-{number}", path)
                     for name, path in (("final", output / "final"), ("checkpoint", saved), ("apart", apart))]
        runs.append(one)
    result = run_many(None, commands)
    printed = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{") and "grad_norm" in line]
    assert len(printed) == 3 * len(WHOLE), failure_text(result)
    return runs, printed[::3]


EVERY = pytest.mark.parametrize("number", range(len(WHOLE)), ids=[f"{family} {' '.join(words)}" for family, _, words in WHOLE])


@EVERY
def test_peft_reads_runs_of_every_projection(number, whole, record_errors):
    """Routed experts beside shared ones, dense layers and routers: PEFT loads them as they are."""
    one, line = whole[0][number], whole[1][number]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        tuned = load_tuned(one, trainable=False)
        plain = transformers.AutoModelForCausalLM.from_pretrained(one.model, dtype=torch.float32)
    missing = [str(warning.message)[:300] for warning in warned if "missing" in str(warning.message)]
    assert not missing
    wanted = tiny_models.loss_of(tuned, ROWS)
    errors, effect = {"loss": relative(wanted, line["loss"])}, relative(wanted, tiny_models.loss_of(plain, ROWS))
    record_errors(errors)
    assert_within(errors, {"loss": 1e-5})
    assert effect > 1e-3, f"the run moved the loss by {effect:.1e} only: a wrong adapter would not show"


@EVERY
def test_checkpoint_and_experts_apart_are_the_same_adapter(number, whole, folder, record_property):
    grads = [load_file(folder / f"grads-{name}-{number}") for name in ("final", "checkpoint", "apart")]
    record_property("gradients", len(grads[0]))
    for other in grads[1:]:
        assert other.keys() == grads[0].keys()
        assert not [key for key in other if not torch.equal(other[key], grads[0][key])]


@pytest.fixture(scope="module")
def resumed(adapted, folder, train_rows):
    """The words of a run that was stopped after two steps of four, its output, and that of one that never stopped."""
    one, output, never_stopped = adapted("all-linear"), folder / "resumed", folder / "never-stopped"
    common = ["tuning.dropout=0.3", "optimizer.lr=0.02", "tuning.alpha=16", "optimizer.schedule=constant",
              "save.every=2"]
    words = train_words(one, train_rows, output, [*common, "run.steps=4"])
    other = train_words(one, train_rows, never_stopped, [*common, "run.steps=4"])
    run_many(None, [other, [*words, "--set", "run.steps=2"]])
    return words, output, never_stopped


def test_checkpoint_has_no_base(resumed, adapted, record_property):
    sizes = [sum(file.stat().st_size for file in path.iterdir())
             for path in (resumed[1] / "checkpoint-2", adapted("all-linear").model)]
    record_property("bytes", f"{sizes[0]} beside a base of {sizes[1]}")
    assert sizes[0] < sizes[1]


def test_resumes_under_another_layout(resumed, record_errors):
    words, output, never_stopped = resumed
    result = run_many(2, [[*words, "--set", "parallel.tensor=2"]])
    losses, wanted = (torch.tensor([line["loss"] for line in read_log(path)]) for path in (output, never_stopped))
    assert len(losses) == len(wanted), failure_text(result)
    errors = {"loss": relative(losses, wanted)}
    record_errors(errors)
    assert_within(errors, {"loss": 2e-5})


def test_checkpoint_is_an_adapter(resumed, adapted, rows, folder):
    """Exported or not."""
    saved, one, out = resumed[1] / "checkpoint-2", adapted("all-linear"), folder / "x.safetensors"
    result = run_many(None, [["convert", "--from", saved, "--to", folder / "exported"], grads_words(one, rows, out, saved),
                             grads_words(one, rows, out, folder / "exported")])
    lines = result.stdout.splitlines()
    assert len(lines) == 3 and lines[1] == lines[2], failure_text(result)


def test_resuming_with_another_rank_is_refused(resumed):
    """With more steps, for a complete run would be refused as such."""
    assert_refused(["was trained with rank 8", "this run has rank 4"],
                   [*resumed[0], *words_of(["tuning.rank=4", "run.steps=6"])])


def test_checkpoint_of_an_adapter_is_no_model(resumed, rows, folder):
    assert_refused(["is an adapter's checkpoint", "tuning.adapters"],
                   ["grads", "--model", resumed[1] / "checkpoint-2", "--rows", rows, "--out", folder / "x.safetensors"])


# Unmerged adapters that generate. adapter, ranks, settings
WRITERS = [("dora", 1, []), ("dora of latents", 2, ["parallel.tensor=2"]), ("patterns", 1, []), ("qwen3_moe", 1, []), ("patterns", 2, ["parallel.tensor=2"]),
           ("rslora", 2, ["parallel.pipeline=2"]), ("qwen3_moe", 2, ["parallel.expert=2"]),
           ("deepseek_v3", 2, ["parallel.tensor=2", "parallel.expert_tensor=2"])]


@pytest.fixture(scope="module")
def clear_rows(adapted, folder):
    """By adapter: rows whose next tokens PEFT is sure of, with those tokens. What rounding may change proves nothing."""
    @functools.cache
    def make(name):
        tuned = load_tuned(adapted(name), False)
        written = [(row, *decoding.likeliest(tuned, row["input_ids"])) for row in ROWS]
        found = [(row, tokens) for row, tokens, margin in written if margin > decoding.CLEAR]
        assert len(found) > 2, f"{name} has {len(found)} rows to generate from"
        tiny_models.write_rows(folder / f"{name}.jsonl", [row for row, _ in found])
        return [tokens for _, tokens in found]
    return make


def launch_writers(ranks, cases, adapted, clear_rows, folder):
    """Tokens of each case, and how the launch ended."""
    counts = [len(clear_rows(name)) for name, _, _ in cases]
    result = run_many(ranks, [
        ["generate", "--model", adapted(name).model, "--adapters", adapted(name).adapter, "--rows", folder / f"{name}.jsonl",
         "--max-new-tokens", decoding.NEW, *words_of(["model.dtype=fp32", *settings])] for name, _, settings in cases])
    lines = iter(result.stdout.splitlines())
    return [([json.loads(line)["output_ids"] for _, line in zip(range(count), lines)], result) for count in counts]


@pytest.fixture(scope="module")
def writers(adapted, clear_rows, folder):
    return Launches(WRITERS, lambda case: case[1],
                    lambda ranks, cases: launch_writers(ranks, cases, adapted, clear_rows, folder))


@pytest.mark.parametrize("case", WRITERS, ids=name_of)
def test_generates_as_peft_does(case, writers, clear_rows):
    tokens, result = writers.of(case)
    assert tokens == clear_rows(case[0]), failure_text(result)[-2000:]
