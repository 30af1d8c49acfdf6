#!/usr/bin/env python3
"""Documents of lengths on both sides of every power of two up to 512, so that whatever size tiles, chunks, rings and
buffers have is exceeded, against transformers one document at a time: loss and every gradient, packed into few rows and
one document per row, under tensor, context and pipeline parallelism and recomputation."""
import json
import pathlib
import random
import sys
import tempfile

import torch
from safetensors.torch import load_file

import tiny_models
from grads_test import compare, make_judge
from program import failure_text, run_many, words_of

LENGTHS = sorted({2, *(length for power in range(4, 10) for length in (2 ** power - 1, 2 ** power, 2 ** power + 1))})
PACKED = {1: [[], ["memory.recompute=selective"]],
          2: [["parallel.context=2"], ["parallel.context=2", "parallel.context_method=ulysses"],
              ["parallel.tensor=2", "memory.recompute=full"], ["parallel.pipeline=2"]]}
APART = {1: [[]], 2: [["parallel.context=2", "run.micro_batch=2"]]}
FAMILIES = ["qwen3", "deepseek_v3"]


def make_rows():
    generator = random.Random(3)
    rows = []
    for length in LENGTHS:
        ids = [generator.randrange(tiny_models.VOCABULARY) for _ in range(length)]
        rows.append({"input_ids": ids, "labels": [token if generator.random() < 0.9 else -100 for token in ids]})
    return rows


def judge_runs(folder, judge, runs, what):
    failed = 0
    for ranks, settings in runs.items():
        outs = [folder / f"{what}-{ranks}-{number}.safetensors" for number in range(len(settings))]
        result = run_many(ranks, [["grads", "--model", judge.model, "--rows", judge.rows, "--out", out, *words_of(each)]
                                  for out, each in zip(outs, settings)])
        lines = result.stdout.splitlines()
        for number, (out, each) in enumerate(zip(outs, settings)):
            wrong, numbers = failure_text(result), ""
            if number < len(lines) and out.exists():
                errors, worst, wrong = compare(json.loads(lines[number]), load_file(out), judge)
                numbers = "  ".join(f"{kind} {error:.1e}" for kind, error in errors.items()) + f" ({worst})"
            failed += bool(wrong)
            print(f"{'FAILED' if wrong else 'ok'}: {what}, {ranks} ranks {' '.join(each)}  {numbers} {wrong}", flush=True)
    return failed


def main():
    torch.set_num_threads(1)
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for family in FAMILIES:
            rows = make_rows()
            packed = make_judge(folder / family, family, 2, rows, tiny_models.pack(rows, 3))
            failed += judge_runs(folder, packed, PACKED, f"{family} packed")
            tiny_models.write_rows(folder / "apart.jsonl", rows)
            failed += judge_runs(folder, packed._replace(rows=folder / "apart.jsonl"), APART, f"{family} apart")
    print(f"{len(LENGTHS)} documents of 2 to {LENGTHS[-1]} tokens; {failed} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
