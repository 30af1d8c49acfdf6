"""Which modules get an adapter, by regular expressions and exclusions, against PEFT's target_modules and exclude_modules; and
what freeze trains by them."""
import json

import peft
import pytest
import safetensors.torch
import torch
import transformers

import tiny_models
from program import failure_text, run_many, words_of

REGEX = r".*layers\.[0-2]\.(self_attn|mlp)\.(q|v|down)_proj"
# targets and exclude here; PEFT's settings
LORA = {
    "regex": ([f"re:{REGEX}"], [], dict(target_modules=REGEX)),
    "exclude": (["all-linear"], ["o_proj", "mlp.up_proj"],
                dict(target_modules="all-linear", exclude_modules=["o_proj", "mlp.up_proj"])),
    "exclude by regex": (["q_proj", "v_proj"], [r"re:.*layers\.[13]\..*"],
                         dict(target_modules=["q_proj", "v_proj"], exclude_modules=r".*layers\.[13]\..*")),
    "both": ([r"re:.*_proj", "q_proj"], [r"re:.*\.mlp\..*"], dict(target_modules=r".*_proj", exclude_modules=r".*\.mlp\..*")),
}
FREEZE = ["re:.*layers.4.mlp.*_proj", "norm"], ["re:.*layers.*norm", "down_proj"]


def words(folder, output, kind, targets, exclude):
    sections = {
        "device": "cpu", "model": {"path": str(folder / "model"), "dtype": "fp32"},
        "tuning": {"kind": kind, "targets": targets, "exclude": exclude, "rank": 4},
        "data": {"train": [str(folder / "rows.jsonl")], "packing": False, "max_length": 64},
        "run": {"steps": 1, "global_batch": 2, "output": str(output)},
    }
    path = output.with_suffix(".yaml")
    path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in sections.items()))
    return ["train", path]


@pytest.fixture(scope="module")
def outputs(folder):
    tiny_models.write_model(tiny_models.config_of("qwen3"), folder / "model")
    tiny_models.write_rows(folder / "rows.jsonl", tiny_models.make_rows(3, shortest=8))
    paths = {name: folder / name.replace(" ", "-") for name in [*LORA, "freeze"]}
    commands = [words(folder, paths[name], "lora", targets, exclude) for name, (targets, exclude, _) in LORA.items()]
    result = run_many(None, [*commands, words(folder, paths["freeze"], "freeze", *FREEZE)])
    assert all((path / "final").exists() for path in paths.values()), failure_text(result)
    return paths


@pytest.mark.parametrize("name", LORA)
def test_adapters(name, outputs, folder):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder / "model")
    tuned = peft.get_peft_model(model, peft.LoraConfig(r=4, task_type="CAUSAL_LM", **LORA[name][2]))
    wanted = set(peft.get_peft_model_state_dict(tuned))
    found = set(safetensors.torch.load_file(outputs[name] / "final/adapter_model.safetensors"))
    assert found == wanted, sorted(found ^ wanted)
    again = peft.PeftModel.from_pretrained(transformers.AutoModelForCausalLM.from_pretrained(folder / "model"),
                                           outputs[name] / "final")
    assert set(peft.get_peft_model_state_dict(again)) == wanted


def test_freeze(outputs, folder):
    before = safetensors.torch.load_file(folder / "model/model.safetensors")
    after = safetensors.torch.load_file(outputs["freeze"] / "final/model.safetensors")
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"model.layers.4.mlp.gate_proj.weight", "model.layers.4.mlp.up_proj.weight", "model.norm.weight"}, changed
