#!/usr/bin/env python3
"""Samples packed into one sequence do not see each other: a run that packs has the losses of a run that does not, if a
step takes all samples; and its first loss is what transformers computes from the samples one by one. Under several
layouts, with and without recomputation."""
import json
import pathlib
import sys
import tempfile

import torch
import transformers
import yaml

from program import failure_text, run
from tiny_models import COMMON

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAYOUTS = [(None, []), (2, []), (2, ["parallel.tensor=2"]), (2, ["parallel.pipeline=2", "memory.recompute=selective"]),
           (None, ["memory.recompute=full"])]
TOLERANCE = 2e-5


def write_model(folder):
    torch.manual_seed(5)
    config = transformers.Qwen3Config(**{**COMMON, "vocab_size": 260, "head_dim": 16, "num_hidden_layers": 2,
                                         "max_position_embeddings": 512})
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (folder / name).write_bytes((ROOT / "examples" / "chat" / name).read_bytes())
    return model


def first_loss(model, folder, data):
    """The mean over the answers' tokens, one sample at a time."""
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    total, tokens = 0.0, 0
    for line in data.read_text().splitlines():
        messages = json.loads(line)["messages"]
        ids = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True)["input_ids"]
        labels = [-100] * len(ids)
        for index, message in enumerate(messages):
            if message["role"] == "assistant":
                begin = len(tokenizer.apply_chat_template(messages[:index], add_generation_prompt=True, return_dict=True)["input_ids"])
                end = len(tokenizer.apply_chat_template(messages[:index + 1], return_dict=True)["input_ids"])
                labels[begin:end] = ids[begin:end]
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, :-1]
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor(labels[1:]), ignore_index=-100, reduction="sum")
        total, tokens = total + loss.item(), tokens + sum(label != -100 for label in labels[1:])
    return total / tokens, tokens


def losses(folder, ranks, settings, packing, number):
    output = folder / f"run{number}"
    config = {"stage": "sft", "model": {"path": str(folder / "model"), "dtype": "fp32"}, "tuning": {"kind": "full"},
              "data": {"train": [str(folder / "chat.jsonl")], "packing": packing, "max_length": 256,
                       "cache": str(folder / "cache")},
              "optimizer": {"lr": 1e-3}, "run": {"output": str(output), "epochs": 3, "global_batch": 64, "micro_batch": 2,
                                                 "save_every": 0}}
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    result = run(ranks, ["train", folder / "run.yaml"], settings)
    assert result.returncode == 0, failure_text(result)
    return [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        model = write_model(folder / "model")
        (folder / "chat.jsonl").write_bytes((ROOT / "examples" / "chat" / "days.jsonl").read_bytes())
        wanted, tokens = first_loss(model, folder / "model", folder / "chat.jsonl")
        plain = losses(folder, None, [], False, "plain")
        for number, (ranks, settings) in enumerate(LAYOUTS):
            packed = losses(folder, ranks, settings, True, number)
            difference = max(abs(a["loss"] - b["loss"]) for a, b in zip(plain, packed))
            good = (len(plain) == len(packed) == 3 and difference < TOLERANCE and abs(packed[0]["loss"] - wanted) < TOLERANCE
                    and packed[0]["tokens"] == tokens)
            failed += not good
            print(f"{'ok' if good else 'FAILED'}: packed, {ranks or 1} ranks, {settings}: off by {difference:.1e}; first loss "
                  f"{packed[0]['loss']:.6f}, transformers {wanted:.6f}, {packed[0]['tokens']} tokens of {tokens}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
