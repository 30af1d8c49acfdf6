"""Adapters of tiny models that see, as PEFT makes them: of the language model, the tower, the aligner and all of them, with
the gradients that PEFT gets. Asserts nothing itself."""
import collections

import peft
import torch
import transformers

import seeing_models
import tiny_models
from gradients import Reference

# name: family, what PEFT is told
ADAPTERS = {
    "all of qwen2_5_vl": ("qwen2_5_vl", dict(r=3, lora_alpha=5, target_modules="all-linear")),
    "all of qwen3_vl": ("qwen3_vl", dict(r=4, lora_alpha=5, target_modules="all-linear", use_rslora=True)),
    "all of qwen3_vl_moe": ("qwen3_vl_moe", dict(r=3, lora_alpha=5, target_modules="all-linear")),
    "language": ("qwen2_5_vl", dict(r=3, lora_alpha=5, target_modules=r".*language_model.*\.(q_proj|k_proj|down_proj)",
                                    rank_pattern={"layers.1.mlp.down_proj": 2}, modules_to_save=["language_model.norm"])),
    "tower": ("qwen2_5_vl", dict(r=3, lora_alpha=5, target_modules=r".*visual\.blocks.*\.(qkv|proj|up_proj)",
                                 rank_pattern={"qkv": 5}, alpha_pattern={"qkv": 3})),
    "aligner": ("qwen3_vl", dict(r=3, lora_alpha=5, target_modules=r".*merger.*\.linear_fc[12]")),
}
ROWS = seeing_models.make_rows()
LAYERS = 4

Adapted = collections.namedtuple("Adapted", "model rows adapter reference")


def load_base(model):
    return transformers.AutoModelForImageTextToText.from_pretrained(model, dtype=torch.float32, attn_implementation="eager")


def load_tuned(model, adapter):
    return peft.PeftModel.from_pretrained(load_base(model), adapter)


def loss_of(model, rows=ROWS):
    with torch.no_grad():
        return sum(part.item() for part in seeing_models.loss_parts(model, rows))


def logits_of(model, row):
    with torch.no_grad():
        return model(input_ids=torch.tensor([row["input_ids"]]), **seeing_models.images_of(row)).logits


def gradients(tuned):
    """Under the names of an adapter's file."""
    return {name.replace(".default", "").replace(".modules_to_save", ""): parameter.grad
            for name, parameter in tuned.named_parameters() if parameter.requires_grad}


def randomise(tuned):
    """A and B that matter both."""
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in tuned.parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn_like(parameter) * 0.2)


def loss_parts(tuned, rows):
    """A row without images does not reach the adapters of a tower: its part of their gradients is 0."""
    trained = next(parameter for parameter in tuned.parameters() if parameter.requires_grad)
    for part in seeing_models.loss_parts(tuned, rows):
        yield part if part.requires_grad else part + 0 * trained.sum()


def make_adapted(folder, family, settings):
    folder.mkdir()
    model = seeing_models.write_model(seeing_models.config_of(family, LAYERS), folder / "model")
    seeing_models.write_rows(folder / "rows.jsonl", ROWS)
    tuned = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **settings))
    randomise(tuned)
    tuned.save_pretrained(folder / "adapter")
    loss, tokens = tiny_models.backward(tuned, ROWS, loss_parts)
    found = gradients(tuned)
    reference = Reference(folder / "model", folder / "rows.jsonl", loss, tokens, tiny_models.norm_of(found.values()), found)
    return Adapted(folder / "model", folder / "rows.jsonl", folder / "adapter", reference)
