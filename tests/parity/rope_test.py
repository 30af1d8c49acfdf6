"""model.rope of RUN.yaml: the rotary embedding of a model is another than its config.json's. Loss and gradients against transformers with
that config, the config.json of a run's result, and what is refused. Rotary embeddings of config.json itself are in the families of
tiny_models.py, their tokens in generate_test.py."""
import json

import pytest
import torch
import transformers
import yaml

import tiny_models
from gradients import Reference, assert_equals
from program import BUILD, failure_text, run_grads, run_many, start, words_of

FP32 = ["model.dtype=fp32"]
LLAMA3 = dict(low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)
YARN = dict(beta_fast=32.0, beta_slow=1.0)
# Name to the family, the settings, the rope_parameters that they mean, max_position_embeddings, and ranks' settings.
CASES = {
    "linear": ("qwen2", dict(kind="linear", factor=4), dict(rope_type="linear", factor=4.0), 512, []),
    "dynamic": ("qwen2", dict(kind="dynamic", factor=4, original_length=16), dict(rope_type="dynamic", factor=4.0), 16, []),
    "yarn": ("qwen3", dict(kind="yarn", factor=8, original_length=16),
             dict(YARN, rope_type="yarn", factor=8.0, original_max_position_embeddings=16), 128, []),
    "yarn in full": ("qwen3", dict(kind="yarn", factor=2, attention_factor=1.5, beta_fast=8, beta_slow=2, theta=5e5),
                     dict(rope_type="yarn", factor=2.0, attention_factor=1.5, beta_fast=8.0, beta_slow=2.0, rope_theta=5e5,
                          original_max_position_embeddings=128), 256, []),
    "llama3 instead of linear": ("llama", dict(kind="llama3", factor=8, original_length=16), dict(LLAMA3, rope_type="llama3", factor=8.0),
                                 128, []),
    "plain instead of llama3": ("llama3", dict(kind="default", theta=2e4), dict(rope_type="default", rope_theta=2e4), 128, []),
    "another base": ("llama3", dict(theta=1e5), dict(tiny_models.LLAMA3_ROPE, rope_theta=1e5), 128, []),
    "dynamic on ranks": ("qwen2", dict(kind="dynamic", factor=4, original_length=16), dict(rope_type="dynamic", factor=4.0), 16,
                         ["parallel.tensor=2"]),
}


def sets(rope, *more):
    return words_of([f"model.rope.{key}={value}" for key, value in rope.items()] + list(more))


@pytest.fixture(scope="module")
def models(folder):
    """Of each family: the directory, and its config."""
    made = {}
    for family in {case[0] for case in CASES.values()} | {"gemma3", "deepseek_v2"}:
        config = tiny_models.config_of(family, num_hidden_layers=2)
        tiny_models.write_model(config, folder / family)
        made[family] = folder / family
    return made


def changed_model(directory, parameters, longest):
    config = transformers.AutoConfig.from_pretrained(directory)
    theta = config.rope_parameters["rope_theta"]
    config.rope_parameters = {"rope_theta": theta, **parameters}
    config.max_position_embeddings = longest
    return tiny_models.forget_lengths(
        transformers.AutoModelForCausalLM.from_pretrained(directory, config=config, dtype=torch.float32))


@pytest.fixture(scope="module")
def rows(folder):
    rows = tiny_models.make_rows()
    tiny_models.write_rows(folder / "rows.jsonl", rows)
    return rows


@pytest.fixture(scope="module")
def outcomes(folder, models, rows):
    found = {}
    for ranks in (None, 2):
        names = [name for name, case in CASES.items() if bool(case[4]) == (ranks == 2)]
        commands = [["grads", "--model", models[CASES[name][0]], "--rows", folder / "rows.jsonl", "--out", folder / f"{name}.safetensors",
                     *sets(CASES[name][1], f"data.cache={folder / 'cache'}", *CASES[name][4])] for name in names]
        found |= dict(zip(names, run_grads(ranks, commands)))
    return found


@pytest.mark.parametrize("name", CASES)
def test_gradients(name, folder, models, rows, outcomes, record_errors):
    family, _, parameters, longest, _ = CASES[name]
    model = changed_model(models[family], parameters, longest)
    loss, tokens = tiny_models.backward(model, rows)
    gradients = tiny_models.gradients(model)
    reference = Reference(models[family], folder / "rows.jsonl", loss, tokens, tiny_models.norm_of(gradients.values()), gradients)
    assert_equals(outcomes[name], reference, record_errors)


@pytest.mark.parametrize("factor", [dict(factor=4), {}], ids=["a factor", "what the longest sequence needs"])
def test_a_run_leaves_the_changed_config(factor, folder, models, rows):
    """And its own commands do not change it again. Without a factor data.max_length decides: 500 of 128 positions are 4 times as many."""
    output = folder / f"run-{len(factor)}"
    run = {"model": {"path": str(models["qwen2"]), "dtype": "fp32", "rope": {"kind": "linear", **factor}},
           "data": {"train": [str(folder / "rows.jsonl")], "valid": [str(folder / "rows.jsonl")], "cache": str(folder / "cache"), "max_length": 500},
           "tuning": {"kind": "full"}, "run": {"output": str(output), "steps": 1, "global_batch": 4, "micro_batch": 2}}
    (folder / "run.yaml").write_text(yaml.safe_dump(run))
    result = start(None, [BUILD / "trireme", "train", folder / "run.yaml"])
    assert result.returncode == 0, failure_text(result)
    final = json.loads((output / "final" / "config.json").read_text())
    assert final["max_position_embeddings"] == 512
    assert final["rope_parameters"]["rope_type"] == "linear" and final["rope_parameters"]["factor"] == 4
    model = transformers.AutoModelForCausalLM.from_pretrained(output / "final", dtype=torch.float32)
    result = start(None, [BUILD / "trireme", "evaluate", folder / "run.yaml"])
    assert result.returncode == 0, failure_text(result)
    assert json.loads(result.stdout)["loss"] == pytest.approx(tiny_models.loss_of(model, rows), rel=1e-5)


# Settings, family, and what the refusal says.
REFUSED = [
    (dict(factor=4), "qwen2", "model.rope.factor = 4.0 is for model.rope.kind linear, dynamic, yarn or llama3, not model"),
    (dict(kind="default", factor=4), "qwen2", "is for model.rope.kind linear, dynamic, yarn or llama3, not default"),
    (dict(original_length=8), "qwen2", "model.rope.original_length = 8 is for model.rope.kind"),
    (dict(kind="linear", factor=0.5), "qwen2", "at least 1"),
    (dict(kind="linear", factor=2, attention_factor=2), "qwen2", "model.rope.attention_factor = 2.0 is for model.rope.kind yarn, not linear"),
    (dict(kind="yarn", factor=2, beta_fast=1, beta_slow=4), "qwen2", "is not above beta_slow"),
    (dict(kind="yarn", factor=2), "gemma3", "for each kind of layer"),
    (dict(kind="linear", factor=2), "deepseek_v2", "has 'mscale'"),
    (dict(kind="longrope", factor=2), "qwen2", "longrope"),
]


def test_refusals(folder, models, rows):
    commands = [["grads", "--model", models[family], "--rows", folder / "rows.jsonl", "--out", folder / "refused.safetensors", *sets(settings)]
                for settings, family, _ in REFUSED]
    result = run_many(None, commands, options=["--refusals"])
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(answers) == len(REFUSED), failure_text(result)
    for (settings, _, text), answer in zip(REFUSED, answers):
        assert text in answer.get("refused", "accepted"), f"{settings}: {answer}"
    command = [BUILD / "trireme", "plan", "--set", f"model.path={models['qwen2']}", "--set", "model.rope.factor=4"]
    assert start(None, command).returncode == 2
