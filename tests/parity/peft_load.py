"""Loads models and adapters with the transformers and PEFT of the Python that runs it: for peft_versions_test.py."""
import json
import pathlib
import sys

import peft
import torch
import transformers
from safetensors import safe_open


def load(questions):
    """Prints a line for each of the questions (model, adapter or nothing, rows)."""
    for model, adapter, rows in questions:
        tuned = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        found = {"transformers": transformers.__version__, "peft": peft.__version__}
        if adapter:
            tuned = peft.PeftModel.from_pretrained(tuned, adapter)
            # B begins with zeros: what was left out still has them.
            b = [value for name, value in tuned.named_parameters() if "lora_B" in name]
            with safe_open(pathlib.Path(adapter) / "adapter_model.safetensors", "pt") as file:
                found |= {"in_file": sum("lora_B" in name for name in file.keys()), "there": len(b),
                          "loaded": sum(bool(value.abs().max() > 0) for value in b)}
        loss = tokens = 0
        for row in map(json.loads, pathlib.Path(rows).read_text().splitlines()):
            labels = torch.tensor(row["labels"][1:])
            with torch.no_grad():
                logits = tuned(input_ids=torch.tensor([row["input_ids"]])).logits[0, :-1]
            loss += torch.nn.functional.cross_entropy(logits, labels, ignore_index=-100, reduction="sum").item()
            tokens += (labels != -100).sum().item()
        print(json.dumps({"loss": loss / tokens, **found}))


load(json.loads(sys.argv[1]))
