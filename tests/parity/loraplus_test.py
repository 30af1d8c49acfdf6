"""Variants of LoRA, ten steps of `trireme train` each against PEFT: LoRA+ (create_loraplus_optimizer), adapters that start from
the weights (PiSSA, OLoRA) and DoRA; what their runs leave behind; and what is refused."""
import functools
import json
import shutil

import peft
import peft.optimizers
import pytest
import torch
import transformers
from safetensors.torch import load_file

import steps
import tiny_models
from gradients import assert_within, relative
from lora_adapters import LINEAR, ROWS, Adapted, load_tuned, make_model
from lora_runs import TRAINED, adapted, name_of, read_log, train_rows, train_words  # noqa: F401  fixtures
from program import Launches, failure_text, run, run_many

RATIO = 6.0
RUNS = {1: [], 2: ["parallel.tensor=2", "parallel.zero=1"]}  # settings by ranks


@pytest.fixture(scope="module")
def wanted(adapted):
    """PEFT's log, and that of the same rate for A and B."""
    rows = [row for row in TRAINED if tiny_models.trained_tokens([row]) > 0]
    tuned = load_tuned(adapted("patterns"))
    adamw = peft.optimizers.create_loraplus_optimizer(
        model=tuned, optimizer_cls=torch.optim.AdamW, lr=steps.COSINE["lr"], loraplus_lr_ratio=RATIO,
        betas=(steps.ADAMW["beta1"], steps.ADAMW["beta2"]), eps=steps.ADAMW["eps"],
        loraplus_weight_decay=steps.ADAMW["weight_decay"])
    return steps.reference(tuned, rows, steps.COSINE, adamw), steps.reference(load_tuned(adapted("patterns")), rows, steps.COSINE)


@pytest.mark.parametrize("ranks", RUNS)
def test_ten_steps(ranks, adapted, train_rows, wanted, record_errors):
    one, output = adapted("patterns"), train_rows.parent / f"loraplus-{ranks}"
    words = train_words(one, train_rows, output, [f"tuning.adapters={one.adapter}", f"tuning.loraplus_lr_ratio={RATIO}",
                                                  *RUNS[ranks]])
    result = run_many(ranks if ranks > 1 else None, [words])
    assert (output / "final").exists(), failure_text(result)
    steps.assert_curve(read_log(output), wanted[0], steps.LIMITS, record_errors)
    last, plain = read_log(output)[-1]["loss"], wanted[1][-1]["loss"]
    assert abs(last - plain) > 1e-3 * plain, "the ratio changes nothing that this test would notice"


def test_refused_without_adapters(adapted, train_rows):
    output = train_rows.parent / "refused"
    words = train_words(adapted("patterns"), train_rows, output, ["tuning.kind=full", "tuning.loraplus_lr_ratio=2"])
    result = run(None, words)
    assert result.returncode == 2 and "tuning.loraplus_lr_ratio = 2.0 is for tuning.kind lora, not full" in result.stderr, \
        failure_text(result)
    assert not output.exists()


# name: family, what PEFT is told, settings
STARTS = {
    "pissa": ("qwen2", dict(init_lora_weights="pissa"), ["tuning.init=pissa"]),
    "olora": ("qwen2", dict(init_lora_weights="olora"), ["tuning.init=olora"]),
    "pissa of one qkv": ("phi3", dict(init_lora_weights="pissa", use_rslora=True, target_modules=["qkv_proj", "down_proj"]),
                         ["tuning.init=pissa", "tuning.rslora=true", "tuning.targets=[qkv_proj, down_proj]"]),
}
LAYOUTS = [(1, []), (2, ["parallel.tensor=2"]), (2, ["parallel.pipeline=2"]), (2, ["parallel.zero=3"])]
CASES = [(name, ranks, layout) for name in STARTS for ranks, layout in LAYOUTS
         if name != "pissa of one qkv" or layout in ([], ["parallel.tensor=2"])]
# Without a peer: experts, and what is drawn (lora_test.py trains DoRA from PEFT's own adapters).
EQUAL = [("experts", 1, []), ("experts", 2, ["parallel.expert=2"]), ("niter", 1, []), ("niter", 2, ["parallel.tensor=2"]),
         *(("dora", ranks, layout) for ranks, layout in LAYOUTS)]
OF_EQUAL = {"dora": ("qwen2", ["tuning.dora=true"]),
            "experts": ("qwen3_moe", ["tuning.init=pissa", "tuning.targets=[up_proj, down_proj, q_proj]"]),
            "niter": ("qwen2", ["tuning.init=pissa", "tuning.pissa_niter=60"])}
RANK = ["tuning.rank=4", "tuning.alpha=6"]


def alone(name):
    """The case of one rank."""
    return next(case for case in [*CASES, *EQUAL] if case[0] == name and case[1] == 1)


def told(name):
    """Family and settings."""
    return (STARTS[name][0], STARTS[name][2]) if name in STARTS else OF_EQUAL[name]


@pytest.fixture(scope="module")
def models(folder):
    """By family."""
    @functools.cache
    def make(family):
        make_model(folder / f"start-{family}", family, {})
        return folder / f"start-{family}"
    return make


def launch_starts(ranks, cases, models, train_rows):
    outputs, commands = [], []
    for name, _, layout in cases:
        family, settings = told(name)
        output = train_rows.parent / f"start {name} {ranks} {' '.join(layout)}".strip().replace(" ", "-")
        commands.append(train_words(Adapted(models(family), None, None, None), train_rows, output,
                                    [*RANK, *settings, *layout, "save.every=4"]))
        outputs.append(output)
    result = run_many(ranks if ranks > 1 else None, commands)
    missing = [output.name for output in outputs if not (output / "final").exists()]
    assert not missing, f"{missing}\n{failure_text(result)}"
    return list(zip(outputs, commands))


@pytest.fixture(scope="module")
def starts(models, train_rows):
    return Launches([*CASES, *EQUAL], lambda case: case[1],
                    lambda ranks, cases: launch_starts(ranks, cases, models, train_rows))


@pytest.fixture(scope="module")
def peers(models):
    """By name: PEFT's log, its model after ten steps, and its logits before the first."""
    rows = [row for row in TRAINED if tiny_models.trained_tokens([row]) > 0]

    @functools.cache
    def make(name):
        family, words, _ = STARTS[name]
        base = transformers.AutoModelForCausalLM.from_pretrained(models(family), dtype=torch.float32)
        tuned = peft.get_peft_model(base, peft.LoraConfig(
            task_type="CAUSAL_LM", **{"r": 4, "lora_alpha": 6, "target_modules": LINEAR, **words}))
        return steps.reference(tuned, rows, steps.COSINE), tuned
    return make


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_starts_as_peft_does(case, starts, peers, record_errors):
    steps.assert_curve(read_log(starts.of(case)[0]), peers(case[0])[0], steps.LIMITS, record_errors)


@pytest.mark.parametrize("name", STARTS)
def test_final_belongs_to_the_model_as_it_was(name, starts, peers, models, record_errors):
    """PEFT loads it beside the unchanged model, and computes what its own model computes after the same steps."""
    output = starts.of(alone(name))[0]
    found = load_tuned(Adapted(models(STARTS[name][0]), output / "final", None, None), trainable=False)
    plain = transformers.AutoModelForCausalLM.from_pretrained(models(STARTS[name][0]), dtype=torch.float32)
    models_of = (found, peers(name)[1].eval(), plain)
    with torch.no_grad():
        mine, theirs, before = (model(torch.tensor([ROWS[0]["input_ids"]])).logits for model in models_of)
    errors = {"logits": ((mine - theirs).abs().max() / (theirs - before).abs().max()).item()}  # as a part of what ten steps changed
    record_errors(errors)
    assert_within(errors, {"logits": 1e-3})


@pytest.mark.parametrize("case", [case for case in EQUAL if case[1] > 1], ids=name_of)
def test_starts_are_equal_under_every_layout(case, starts, record_errors):
    steps.assert_curve(read_log(starts.of(case)[0]), read_log(starts.of(alone(case[0]))[0]), steps.LIMITS, record_errors)


def test_iterations_come_close_to_the_exact_start(starts, peers, record_errors):
    """Its vectors are drawn, so that nothing but the limit is the same."""
    log = read_log(starts.of(alone("niter"))[0])
    errors = {"loss": max(relative(line["loss"], other["loss"]) for line, other in zip(log, peers("pissa")[0]))}
    record_errors(errors)
    assert_within(errors, {"loss": 1e-3})


def test_magnitudes_start_as_lengths(models, train_rows):
    """So that the first step computes what the model computes."""
    output = train_rows.parent / "lengths"
    result = run(None, train_words(Adapted(models("qwen2"), None, None, None), train_rows, output,
                                   [*RANK, "tuning.dora=true", "optimizer.lr=0", "optimizer.min_lr=0", "run.steps=1"]))
    assert result.returncode == 0, failure_text(result)
    weights, adapter = (load_file(folder / name) for folder, name in (
        (models("qwen2"), "model.safetensors"), (output / "final", "adapter_model.safetensors")))
    magnitudes = {name: values for name, values in adapter.items() if name.endswith("lora_magnitude_vector")}
    assert len(magnitudes) == 3 * len(LINEAR)
    for name, values in magnitudes.items():
        weight = weights[name.removeprefix("base_model.model.").replace("lora_magnitude_vector", "weight")]
        torch.testing.assert_close(values, weight.float().norm(dim=1), rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", ["pissa", "dora"])
def test_resumes_from_its_start(name, starts, models, folder, record_errors):
    """From the fourth step, under another layout; and its checkpoint generates and trains on as an adapter beside the model."""
    output, words = starts.of(alone(name))
    whole = read_log(output)
    saved = output.with_name(f"{output.name}-kept")
    shutil.copytree(output, saved)
    for gone in ("final", "checkpoint-8", "checkpoint-10"):
        shutil.rmtree(output / gone)
    result = run_many(2, [[*words, "--set", "parallel.tensor=2"]])
    assert (output / "final").exists(), failure_text(result)
    steps.assert_curve(read_log(output), whole, steps.LIMITS, record_errors)
    tiny_models.write_rows(folder / "start-rows.jsonl", ROWS)
    lines = []
    for adapter in (saved / "checkpoint-10", saved / "final"):
        result = run(None, ["grads", "--model", models(told(name)[0]), "--adapters", adapter, "--rows",
                            folder / "start-rows.jsonl", "--out", folder / f"{adapter.name}.safetensors"])
        assert result.returncode == 0, failure_text(result)
        lines.append(result.stdout)
    assert lines[0] == lines[1], "the checkpoint is another adapter than final/"


REFUSED = [
    (["tuning.kind=full", "tuning.init=pissa"], "tuning.init = pissa is for tuning.kind lora, not full"),
    (["tuning.kind=freeze", "tuning.dora=true"], "tuning.dora = true is for tuning.kind lora, not freeze"),
    (["tuning.pissa_niter=3"], "tuning.pissa_niter = 3 is for tuning.init pissa, not lora"),
    (["tuning.init=olora", "tuning.dora=true"], "tuning.init olora and tuning.dora do not go together"),
    (["tuning.init=olora", "tuning.adapters=ADAPTER"], "tuning.init olora is for new adapters"),
    (["tuning.init=pissa", "tuning.rank=500"], "which has"),
    (["tuning.init=pissa", "stage=dpo"], "tuning.init = pissa is for stages pt, sft, orpo, simpo, cpo and rm, not dpo"),
    (["tuning.dora=true", "tuning.dropout=0.1"], "tuning.dropout = 0.1 with DoRA"),
    (["model.path=MOE", "tuning.dora=true"], "belongs to an expert"),
]


def test_dora_leaves_the_default_dropout_out(adapted, train_rows):
    """Which is not 0, and DoRA has none; the resolved file says what was meant."""
    one, output = adapted("patterns"), train_rows.parent / "without-dropout"
    words = train_words(one, train_rows, output, ["tuning.dora=true", "run.steps=1"])
    words[1].write_text(words[1].read_text().replace(', "dropout": 0.0', ""))
    result = run(None, words)
    assert result.returncode == 0, failure_text(result)
    assert json.loads((output / "final" / "adapter_config.json").read_text())["lora_dropout"] == 0


@pytest.mark.parametrize("settings, text", REFUSED, ids=[" ".join(case[0]) for case in REFUSED])
def test_refused_starts(settings, text, adapted, models, train_rows):
    one, output = adapted("patterns"), train_rows.parent / "refused"
    places = {"ADAPTER": one.adapter, "MOE": models("qwen3_moe")}
    words = [functools.reduce(lambda word, place: word.replace(place, str(places[place])), places, word) for word in settings]
    result = run(None, train_words(one, train_rows, output, words))
    assert result.returncode == 2 and text in result.stderr, failure_text(result)
    assert not output.exists()
