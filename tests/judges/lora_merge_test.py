#!/usr/bin/env python3
"""`trireme merge` against PEFT's own merge: equal logits for every naming and scaling that PEFT writes. Then adapters
that do not match."""
import json
import pathlib
import shutil
import sys
import tempfile

import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

import tiny_models
from program import failure_text, run

LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
# name, family, PEFT's arguments
ADAPTERS = [
    ("all-linear", "llama3", dict(r=4, lora_alpha=8, target_modules=LINEAR)),
    ("some, rslora", "qwen2", dict(r=6, lora_alpha=5, target_modules=["q_proj", "down_proj"], use_rslora=True)),
    ("patterns", "qwen3", dict(r=4, lora_alpha=8, target_modules=LINEAR, rank_pattern={"q_proj": 2, "layers.1.mlp.up_proj": 7},
                               alpha_pattern={"q_proj": 3, "layers.1.mlp.up_proj": 20})),
    ("a replaced head", "llama3", dict(r=3, lora_alpha=8, target_modules=["v_proj"], modules_to_save=["lm_head"])),
    ("an embedding", "llama", dict(r=3, lora_alpha=4, target_modules=["embed_tokens", "o_proj"])),
    ("experts in one tensor", "mixtral", dict(r=3, lora_alpha=4, target_modules=["o_proj"], target_parameters=[
        "mlp.experts.gate_up_proj", "mlp.experts.down_proj"])),
]
TOKENS = torch.arange(24).unsqueeze(0)
failures = []


def check(what, fine, detail=""):
    print(f"{'ok' if fine else 'FAILED'}: {what} {'' if fine else detail}", flush=True)
    if not fine:
        failures.append(what)


def logits(model):
    with torch.no_grad():
        return model(TOKENS).logits


def make_adapter(model, folder, settings):
    """Random A and B, and a head that differs from the base's; returns the logits of PEFT's own merge."""
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


def judge(folder, index, name, family, settings):
    base, adapter, target = (folder / f"{part}-{index}" for part in ("base", "adapter", "merged"))
    model = tiny_models.write_model(tiny_models.config_of(family, num_hidden_layers=2), base)
    before = logits(model)
    wanted = make_adapter(model, adapter, settings)
    result = merge(base, adapter, target, ranks=2 if index == 1 else None)
    check(f"merge: {name}", result.returncode == 0, failure_text(result))
    found = logits(transformers.AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32))
    error, effect = (found - wanted).abs().max().item(), (wanted - before).abs().max().item()
    check(f"logits of {name}: off by {error:.1e}, the adapter's effect is {effect:.1e}", error <= 1e-5 < effect / 100)
    return base, adapter


def refused(what, words, base, adapter, folder):
    result = merge(base, adapter, folder / "never")
    fine = result.returncode == 2 and all(word in result.stderr for word in words) and not list(folder.glob("never*"))
    check(f"refused: {what}", fine, failure_text(result))


def judge_refusals(folder, base, adapter):
    other = folder / "other"
    tiny_models.write_model(tiny_models.config_of("llama3", num_hidden_layers=1, intermediate_size=100), other)
    refused("another base", ["do not fit the weight", "another model?"], other, adapter, folder)
    bad = folder / "bad"

    def edit(config=(), change=lambda tensors: None):
        shutil.rmtree(bad, ignore_errors=True)
        shutil.copytree(adapter, bad)
        path = bad / "adapter_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **dict(config)}))
        tensors = load_file(bad / "adapter_model.safetensors")
        change(tensors)
        save_file(tensors, bad / "adapter_model.safetensors", metadata={"format": "pt"})

    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
    edit(change=lambda tensors: tensors.update({name: tensors[name][:2].clone()}))
    refused("A and B of different rank", ["q_proj.weight", "A [2, 64] and B [64, 4]"], base, bad, folder)
    edit(change=lambda tensors: tensors.pop(name))
    refused("B without A", ["q_proj.weight", "its A or B is missing"], base, bad, folder)
    edit({"use_dora": True})
    refused("DoRA", ["use_dora is true"], base, bad, folder)
    edit({"peft_type": "IA3"})
    refused("another kind", ["peft_type is \"IA3\""], base, bad, folder)
    edit(change=lambda tensors: tensors.update({"base_model.model.x.lora_magnitude_vector": torch.ones(3)}))
    refused("an unknown tensor", ["x.lora_magnitude_vector", "not supported"], base, bad, folder)
    (bad / "adapter_config.json").unlink()
    refused("no config", ["adapter_config.json", "cannot be read"], base, bad, folder)


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        made = [judge(folder, index, *adapter) for index, adapter in enumerate(ADAPTERS)]
        judge_refusals(folder, *made[0])
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
