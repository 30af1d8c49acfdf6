"""Samples in one sequence do not see each other: a run that packs has the losses of a run that does not, as long as a
step takes all samples; and its first loss is what transformers computes from the samples one by one. Under several
layouts, with and without recomputation."""
import collections
import json
import pathlib

import pytest
import torch
import transformers
import yaml

from gradients import assert_within
from program import run_well
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
              "optimizer": {"lr": 1e-3}, "run": {"output": str(output), "epochs": 3, "global_batch": 64, "micro_batch": 2},
              "save": {"every": 0}}
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    run_well(ranks, ["train", folder / "run.yaml"], settings)
    return [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]


Unpacked = collections.namedtuple("Unpacked", "first_loss tokens log")


@pytest.fixture(scope="module")
def unpacked(folder):
    """By transformers the first loss and its tokens; the log of a run that does not pack."""
    model = write_model(folder / "model")
    (folder / "chat.jsonl").write_bytes((ROOT / "examples" / "chat" / "days.jsonl").read_bytes())
    loss, tokens = first_loss(model, folder / "model", folder / "chat.jsonl")
    return Unpacked(loss, tokens, losses(folder, None, [], False, "plain"))


@pytest.mark.parametrize("number", range(len(LAYOUTS)), ids=[
    f"{ranks or 1} ranks {' '.join(settings)}" for ranks, settings in LAYOUTS])
def test_packing(number, unpacked, folder, record_errors):
    log = losses(folder, *LAYOUTS[number], True, number)
    assert len(log) == len(unpacked.log) == 3
    errors = {"loss": max(abs(a["loss"] - b["loss"]) for a, b in zip(unpacked.log, log)),
              "first_loss": abs(log[0]["loss"] - unpacked.first_loss)}
    record_errors(errors)
    assert_within(errors, dict.fromkeys(errors, TOLERANCE))
    assert log[0]["tokens"] == unpacked.tokens
