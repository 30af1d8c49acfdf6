"""`trireme merge`, against PEFT's own merge: equal logits for every naming and scaling that PEFT writes. Then adapters
that do not fit."""
import json
import shutil

import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import tiny_models
from gradients import assert_within
from program import failure_text, run

LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
# name, family, what PEFT is told
ADAPTERS = [
    ("all-linear", "llama3", dict(r=4, lora_alpha=8, target_modules=LINEAR)),
    ("some, rslora", "qwen2", dict(r=6, lora_alpha=5, target_modules=["q_proj", "down_proj"], use_rslora=True)),
    ("patterns", "qwen3", dict(r=4, lora_alpha=8, target_modules=LINEAR, rank_pattern={"q_proj": 2, "layers.1.mlp.up_proj": 7},
                               alpha_pattern={"q_proj": 3, "layers.1.mlp.up_proj": 20})),
    ("dora", "qwen2", dict(r=4, lora_alpha=8, target_modules=LINEAR, use_dora=True)),
    ("a replaced head", "llama3", dict(r=3, lora_alpha=8, target_modules=["v_proj"], modules_to_save=["lm_head"])),
    ("an embedding", "llama", dict(r=3, lora_alpha=4, target_modules=["embed_tokens", "o_proj"])),
    ("experts in one tensor", "mixtral", dict(r=3, lora_alpha=4, target_modules=["o_proj"], target_parameters=[
        "mlp.experts.gate_up_proj", "mlp.experts.down_proj"])),
]
TOKENS = torch.arange(24).unsqueeze(0)
LIMITS = {"logits": 1e-5}


def logits(model):
    with torch.no_grad():
        return model(TOKENS).logits


def make_adapter(model, folder, settings):
    """Random A and B, and a head that is not the base's; returns the logits of PEFT's own merge."""
    torch.manual_seed(3)
    tuned = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **settings))
    with torch.no_grad():
        for parameter in tuned.parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn_like(parameter) * 0.2)
    tuned.save_pretrained(folder)
    return logits(tuned.merge_and_unload())


def merge(base, adapter, target, ranks=None):
    return run(ranks, ["merge", "--model", base, "--adapters", adapter, "--to", target])


@pytest.mark.parametrize("index", range(len(ADAPTERS)), ids=[name for name, _, _ in ADAPTERS])
def test_merge(index, folder, record_errors, record_property):
    _, family, settings = ADAPTERS[index]
    base, adapter, target = (folder / f"{part}-{index}" for part in ("base", "adapter", "merged"))
    model = tiny_models.write_model(tiny_models.config_of(family, num_hidden_layers=2), base)
    before = logits(model)
    wanted = make_adapter(model, adapter, settings)
    result = merge(base, adapter, target, ranks=2 if index == 1 else None)
    assert result.returncode == 0, failure_text(result)
    found = logits(transformers.AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32))
    errors, effect = {"logits": (found - wanted).abs().max().item()}, (wanted - before).abs().max().item()
    record_errors(errors)
    record_property("effect", f"{effect:.1e}")
    assert_within(errors, LIMITS)
    assert LIMITS["logits"] < effect / 100, f"the adapter's effect is {effect:.1e}: a wrong merge would not show"


@pytest.fixture(scope="module")
def adapted(folder):
    """A base and an adapter of it."""
    _, family, settings = ADAPTERS[0]
    model = tiny_models.write_model(tiny_models.config_of(family, num_hidden_layers=2), folder / "base")
    make_adapter(model, folder / "adapter", settings)
    return folder / "base", folder / "adapter"


def assert_refused(words, base, adapter):
    folder = base.parent
    result = merge(base, adapter, folder / "never")
    assert result.returncode == 2 and not list(folder.glob("never*")), failure_text(result)
    for word in words:
        assert word in result.stderr, f"{word!r} is not in: {failure_text(result)}"


def test_another_base_is_refused(adapted, folder):
    other = folder / "other"
    tiny_models.write_model(tiny_models.config_of("llama3", num_hidden_layers=1, intermediate_size=100), other)
    assert_refused(["do not fit the weight", "another model?"], other, adapted[1])


NAME = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
# name, changes of the adapter's config, what is done to its tensors, what the line must say
BAD = [
    ("A and B of different rank", {}, lambda tensors: tensors.update({NAME: tensors[NAME][:2].clone()}),
     ["q_proj.weight", "A [2, 64] and B [64, 4]"]),
    ("B without A", {}, lambda tensors: tensors.pop(NAME), ["q_proj.weight", "its A or B is missing"]),
    ("DoRA without magnitudes", {"use_dora": True}, lambda tensors: None, ["lora_magnitude_vector' is missing", "use_dora"]),
    ("magnitudes without DoRA", {}, lambda tensors: tensors.update({NAME.replace("lora_A.weight", "lora_magnitude_vector"):
                                                                     torch.ones(64)}),
     ["lora_magnitude_vector' is there", "use_dora"]),
    ("a start that changed the base", {"init_lora_weights": "pissa_niter_4"}, lambda tensors: None,
     ["init_lora_weights is \"pissa_niter_4\"", "path_initial_model_for_weight_conversion"]),
    ("another kind", {"peft_type": "IA3"}, lambda tensors: None, ["peft_type is \"IA3\""]),
    ("an unknown tensor", {}, lambda tensors: tensors.update({"base_model.model.x.lora_length": torch.ones(3)}),
     ["x.lora_length", "not supported"]),
]


@pytest.fixture
def bad(adapted, folder):
    """A copy of the adapter, to be spoilt."""
    shutil.copytree(adapted[1], folder / "bad")
    yield folder / "bad"
    shutil.rmtree(folder / "bad")


@pytest.mark.parametrize("config, change, words", [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_adapter_is_refused(config, change, words, adapted, bad):
    path = bad / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **config}))
    tensors = load_file(bad / "adapter_model.safetensors")
    change(tensors)
    save_file(tensors, bad / "adapter_model.safetensors", metadata={"format": "pt"})
    assert_refused(words, adapted[0], bad)


def test_adapter_without_config_is_refused(adapted, bad):
    (bad / "adapter_config.json").unlink()
    assert_refused(["adapter_config.json", "cannot be read"], adapted[0], bad)
