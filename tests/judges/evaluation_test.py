#!/usr/bin/env python3
"""Evaluations of `trireme train` against transformers: loss and token accuracy of the model that the run left, on the
same rows, under several layouts and uneven rows; and the best checkpoint is kept. One launch per number of ranks."""
import json
import pathlib
import sys
import tempfile

import torch
import transformers

import tiny_models
from program import BUILD, failure_text, run_many, start, words_of

# Enough steps to memorise some of the rows: an untrained model predicts no token correctly, which proves nothing.
STEPS, EVERY = 8, 4
# fp32 sums in another order. One wrongly counted token changes the accuracy by 6e-3.
LOSS_LIMIT, ACCURACY_LIMIT = 2e-5, 1e-9
# bf16: transformers itself deviates more from fp32; equal logits are common, and other rounding flips a token or two.
BF16_LIMITS = 1e-2, 2e-2
V_SHAPE = ["parallel.pipeline=2", "parallel.schedule=dualpipev", "parallel.virtual_stages=2"]
# ranks: model, dtype, settings; 7 rows, so that no number of ranks divides them evenly
RUNS = {
    1: [("qwen2", "fp32", []), ("qwen2", "fp32", ["run.micro_batch=4", "memory.recompute=full"]),
        ("qwen2", "bf16", []), ("qwen2", "fp32", ["tuning.hidden_dropout=0.1"])],
    2: [("qwen2", "fp32", ["parallel.tensor=2"]), ("qwen2", "fp32", ["parallel.pipeline=2", "run.global_batch=5"]),
        ("qwen2", "fp32", V_SHAPE), ("qwen2", "fp32", ["parallel.zero=3", "run.micro_batch=2"]),
        ("qwen2", "fp32", ["parallel.zero=1", "run.global_batch=3"]), ("qwen2", "fp32", ["parallel.context=2"]),
        ("qwen3_moe", "fp32", ["parallel.expert=2"]), ("qwen2", "bf16", ["parallel.tensor=2"]),
        ("qwen2", "fp32", ["parallel.pipeline=2", "tuning.hidden_dropout=0.05"])],
}


def write_run(path, folder, model, valid, more):
    sections = {
        "device": "cpu", "model": {"path": str(folder / model)}, "tuning": {"kind": "full"},
        "data": {"train": [str(folder / "rows.jsonl")], "valid": [str(folder / valid)], "packing": False,
                 "max_length": 64},
        "optimizer": {"lr": 1e-2, "schedule": "constant", "weight_decay": 0},
        "run": {"steps": STEPS, "global_batch": 4, "save_every": 0, "eval_every": EVERY, "log_every": 3, **more},
    }
    path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in sections.items()))
    return path


def judged(folder, rows, dtype):
    """Mean loss over the trained tokens, and the share of them that argmax predicts."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
    loss, right = 0.0, 0
    for row in rows:
        labels = torch.tensor(row["labels"][1:])
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([row["input_ids"]])).logits[0, :-1]
        loss += torch.nn.functional.cross_entropy(logits.float(), labels, ignore_index=-100, reduction="sum").item()
        right += (logits.argmax(-1) == labels)[labels != -100].sum().item()
    tokens = tiny_models.trained_tokens(rows)
    return loss / tokens, right / tokens


def wrong_with(output, rows, dtype):
    log = [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]
    evaluated = [line["step"] for line in log if "eval_loss" in line]
    if evaluated != [EVERY, STEPS]:
        return f"evaluated after steps {evaluated}"
    loss, accuracy = judged(output / "final", rows, {"fp32": "float32", "bf16": "bfloat16"}[dtype])
    if accuracy < 0.1:
        return f"transformers has accuracy {accuracy}: the test could not detect a wrong one"
    loss_limit, accuracy_limit = BF16_LIMITS if dtype == "bf16" else (LOSS_LIMIT, ACCURACY_LIMIT)
    errors = abs(log[-1]["eval_loss"] - loss) / loss, abs(log[-1]["eval_token_accuracy"] - accuracy)
    print(f"    loss {loss:.4f} ({errors[0]:.1e})  accuracy {accuracy:.4f} ({errors[1]:.1e})")
    return "" if errors[0] <= loss_limit and errors[1] <= accuracy_limit else f"log has {log[-1]}"


def report(what, wrong):
    print(f"{'FAILED' if wrong else 'ok'}: {what} {wrong}", flush=True)
    return bool(wrong)


def judge_layouts(folder, rows):
    failed = 0
    for ranks, runs in RUNS.items():
        commands, outputs = [], []
        for number, (model, dtype, settings) in enumerate(runs):
            outputs.append(folder / f"output-{ranks}-{number}")
            more = {"output": str(outputs[-1])}
            path = write_run(folder / f"{ranks}-{number}.yaml", folder, model, "rows.jsonl", more)
            commands.append(["train", path, *words_of([*settings, f"model.dtype={dtype}"])])
        result = run_many(ranks, commands)
        if result.returncode != 0:
            return failed + report(f"{ranks} ranks", failure_text(result))
        for output, (model, dtype, settings) in zip(outputs, runs):
            what = f"{ranks} ranks {model} {dtype} {' '.join(settings) or '-'}"
            failed += report(what, wrong_with(output, rows, dtype))
    return failed


def judge_best(folder):
    """Memorising rows makes other rows worse: the first evaluation is the best, and its checkpoint outlives newer
    ones."""
    output = folder / "best"
    more = {"output": str(output), "eval_every": 2, "save_every": 2, "keep": 1}
    path = write_run(folder / "best.yaml", folder, "qwen2", "others.jsonl", more)
    result = start(None, [BUILD / "trireme", "train", path])
    if result.returncode != 0:
        return report("best checkpoint", failure_text(result))
    log = [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]
    best = min((line for line in log if "eval_loss" in line), key=lambda line: line["eval_loss"])["step"]
    left = sorted(int(path.name.split("-")[1]) for path in output.glob("checkpoint-*"))
    wrong = "" if best < STEPS - 2 and left == [best, STEPS] else f"best is {best}, left {left}"
    return report(f"the best checkpoint, of step {best}, stays beside the newest", wrong)


def judge_speed(folder, rows):
    """The speed in the log, where a step has all rows: it counts all tokens, without padding."""
    output = folder / "speed"
    path = write_run(folder / "speed.yaml", folder, "qwen2", "rows.jsonl",
                     {"output": str(output), "global_batch": len(rows), "micro_batch": 2, "log_every": 1, "steps": 2})
    result = start(None, [BUILD / "trireme", "train", path])
    if result.returncode != 0:
        return report("speed", failure_text(result))
    tokens, trained = sum(len(row["input_ids"]) for row in rows), tiny_models.trained_tokens(rows)
    wrong = [line for line in map(json.loads, (output / "log.jsonl").read_text().splitlines())
             if line["tokens"] != trained or abs(line["tokens_per_second"] * line["step_seconds"] / tokens - 1) > 1e-3]
    return report(f"tokens_per_second counts all {tokens} tokens, tokens the {trained} trained ones", wrong or "")


def judge_refusal(folder):
    path = write_run(folder / "refused.yaml", folder, "qwen2", "rows.jsonl", {"output": str(folder / "refused")})
    result = start(None, [BUILD / "trireme", "train", path, "--set", "data.valid=[]"])
    wanted = "run.eval_every = 4 has nothing to evaluate on"
    return report("no data to evaluate on is refused",
                  "" if result.returncode == 2 and wanted in result.stderr else failure_text(result))


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for family in ("qwen2", "qwen3_moe"):
            tiny_models.write_model(tiny_models.config_of(family), folder / family)
        rows = [row for row in tiny_models.make_rows(8, shortest=8, seed=7) if tiny_models.trained_tokens([row])]
        assert len(rows) == 7, len(rows)
        tiny_models.write_rows(folder / "rows.jsonl", rows)
        tiny_models.write_rows(folder / "others.jsonl", tiny_models.make_rows(3, shortest=8, seed=8))
        failed = judge_layouts(folder, rows) + judge_best(folder) + judge_refusal(folder) + judge_speed(folder, rows)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
