#!/usr/bin/env python3
"""Conversations to rows, by hand, against `datasets.map` (batched, two processes) with transformers' fast tokenizer: how
long each takes on this machine's cores. Ours also packs, writes its cache and includes the start of the program; theirs
counts the mapping alone. That the rows are the same is tested by data_rows_test.py."""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import datasets
import transformers
import yaml

from chat_marks import marked
from program import BUILD
from real_tokenizers import directory_of

datasets.disable_progress_bars()
os.environ["TOKENIZERS_PARALLELISM"] = "false"  # as datasets asks for where it forks
WORDS = pathlib.Path(__file__).read_text().split() + "the ship sails over seven seas 航 船 в море 2026 don't".split()
PROBE = BUILD / "tests" / "data" / "data_probe"


def write_chats(path, count):
    generator = random.Random(4)
    with open(path, "w") as file:
        for _ in range(count):
            messages = []
            for _ in range(generator.randrange(1, 4)):
                for role, most in (("user", 60), ("assistant", 200)):
                    text = " ".join(generator.choice(WORDS) for _ in range(generator.randrange(5, most)))
                    messages.append({"role": role, "content": text})
            file.write(json.dumps({"messages": messages}, ensure_ascii=False) + "\n")


def theirs(model, path, processes):
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(model)
    tokenizer.chat_template = marked("qwen2_5", tokenizer.chat_template)

    def rows(batch):
        tokens = tokenizer.apply_chat_template(batch["messages"], tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
        labels = [[token if learnt else -100 for token, learnt in zip(ids, mask)]
                  for ids, mask in zip(tokens["input_ids"], tokens["assistant_masks"])]
        return {"input_ids": tokens["input_ids"], "labels": labels}

    with tempfile.TemporaryDirectory() as cache:
        data = datasets.load_dataset("json", data_files=str(path), split="train", cache_dir=cache)
        start = time.perf_counter()
        data = data.map(rows, batched=True, num_proc=processes, remove_columns=["messages"])
        seconds = time.perf_counter() - start
        return data["input_ids"][:], data["labels"][:], seconds


def ours(model, path, folder, packing, words=(), data=None, stage="sft"):
    config = {"stage": stage, "model": {"path": str(model)},
              "data": {"train": [str(path)], "packing": packing, "shuffle": False, "max_length": 4096,
                       "cache": tempfile.mkdtemp(dir=folder), **(data or {})}}
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    start = time.perf_counter()
    result = subprocess.run([str(PROBE), str(folder / "run.yaml"), *words], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in result.stdout.splitlines()], time.perf_counter() - start


def main():
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        write_chats(folder / "chats.jsonl", 20000)
        model = directory_of("qwen2_5")
        ids, _, seconds = theirs(model, folder / "chats.jsonl", 2)
        packed, our_seconds = ours(model, folder / "chats.jsonl", folder, packing=True, words=["--count"])
        tokens = sum(len(row) for row in ids)
        assert packed[0]["tokens"] == tokens, (packed, tokens)
        print(json.dumps({"conversations": len(ids), "tokens": tokens, "datasets_seconds": round(seconds, 2),
                          "seconds": round(our_seconds, 2), "ratio": round(seconds / our_seconds, 2)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
