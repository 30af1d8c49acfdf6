"""Evaluations of `trireme train`, against transformers: loss and token accuracy of the model that the run left, on the
same rows, under several layouts and uneven rows; and the best checkpoint stays. One launch per number of ranks."""
import json

import pytest
import torch
import transformers

import tiny_models
from gradients import assert_within
from program import BUILD, Launches, failure_text, run_many, run_well, start, words_of

# Enough steps to learn some of the rows by heart: an untrained model is right in no token, which proves nothing.
STEPS, EVERY = 8, 4
# fp32 sums in another order. A token that is wrongly counted moves the accuracy by 6e-3.
LOSS_LIMIT, ACCURACY_LIMIT = 2e-5, 1e-9
# bf16: transformers' own strays from fp32 by more; equal logits are common, and another rounding moves a token or two.
BF16_LIMITS = 1e-2, 2e-2
V_SHAPE = ["parallel.pipeline=2", "parallel.schedule=dualpipev", "parallel.virtual_stages=2"]
# model, dtype, ranks, settings; 7 rows, so that no number of ranks shares them evenly
CASES = [
    ("qwen2", "fp32", 1, []), ("qwen2", "fp32", 1, ["run.micro_batch=4", "memory.recompute=full"]),
    ("qwen2", "bf16", 1, []), ("qwen2", "fp32", 1, ["tuning.hidden_dropout=0.1"]),
    ("qwen2", "fp32", 2, ["parallel.tensor=2"]), ("qwen2", "fp32", 2, ["parallel.pipeline=2", "run.global_batch=5"]),
    ("qwen2", "fp32", 2, V_SHAPE), ("qwen2", "fp32", 2, ["parallel.zero=3", "run.micro_batch=2"]),
    ("qwen2", "fp32", 2, ["parallel.zero=1", "run.global_batch=3"]), ("qwen2", "fp32", 2, ["parallel.context=2"]),
    ("qwen3_moe", "fp32", 2, ["parallel.expert=2"]), ("qwen2", "bf16", 2, ["parallel.tensor=2"]),
    ("qwen2", "fp32", 2, ["parallel.pipeline=2", "tuning.hidden_dropout=0.05"]),
]


def write_run(path, folder, model, valid, run, **more):
    sections = {
        "device": "cpu", "model": {"path": str(folder / model)}, "tuning": {"kind": "full"},
        "data": {"train": [str(folder / "rows.jsonl")], "valid": [str(folder / valid)], "packing": False,
                 "max_length": 64},
        "optimizer": {"lr": 1e-2, "schedule": "constant", "weight_decay": 0},
        "run": {"steps": STEPS, "global_batch": 4, **run},
        "eval": {"every": EVERY, **more.get("eval", {})}, "save": {"every": 0, **more.get("save", {})},
        "log": {"every": 3, **more.get("log", {})},
    }
    path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in sections.items()))
    return path


def evaluated(folder, rows, dtype):
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


@pytest.fixture(scope="module")
def rows(folder):
    """Seven rows; models and data files are in the folder."""
    for family in ("qwen2", "qwen3_moe"):
        tiny_models.write_model(tiny_models.config_of(family), folder / family)
    rows = [row for row in tiny_models.make_rows(8, shortest=8, seed=7) if tiny_models.trained_tokens([row])]
    assert len(rows) == 7, len(rows)
    tiny_models.write_rows(folder / "rows.jsonl", rows)
    tiny_models.write_rows(folder / "others.jsonl", tiny_models.make_rows(3, shortest=8, seed=8))
    return rows


def launch(ranks, cases, folder):
    """The output of each case's run."""
    outputs = [folder / f"output-{ranks}-{number}" for number in range(len(cases))]
    commands = []
    for output, (model, dtype, _, settings) in zip(outputs, cases):
        path = write_run(output.with_suffix(".yaml"), folder, model, "rows.jsonl", {"output": str(output)})
        commands.append(["train", path, *words_of([*settings, f"model.dtype={dtype}"])])
    result = run_many(ranks, commands)
    assert result.returncode == 0, failure_text(result)
    return outputs


@pytest.fixture(scope="module")
def launches(selected, folder, rows):
    return Launches(selected(test_evaluation), lambda case: case[2], lambda ranks, cases: launch(ranks, cases, folder))


def read_log(output):
    return [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[1]} {case[2]} ranks {' '.join(case[3])}")
def test_evaluation(case, launches, rows, record_errors):
    output, dtype = launches.of(case), case[1]
    log = read_log(output)
    assert [line["step"] for line in log if "eval_loss" in line] == [EVERY, STEPS]
    loss, accuracy = evaluated(output / "final", rows, {"fp32": "float32", "bf16": "bfloat16"}[dtype])
    assert accuracy >= 0.1, f"transformers has accuracy {accuracy}: a wrong one would not show"
    errors = {"loss": abs(log[-1]["eval_loss"] - loss) / loss,
              "accuracy": abs(log[-1]["eval_token_accuracy"] - accuracy)}
    record_errors(errors)
    assert_within(errors, dict(zip(errors, BF16_LIMITS if dtype == "bf16" else (LOSS_LIMIT, ACCURACY_LIMIT))))


def test_the_best_checkpoint_stays(rows, folder):
    """Rows by heart make other rows worse: the first evaluation is the best, and its checkpoint outlives newer ones."""
    output = folder / "best"
    run_well(None, ["train", write_run(folder / "best.yaml", folder, "qwen2", "others.jsonl", {"output": str(output)},
                                       eval={"every": 2}, save={"every": 2, "keep": 1})])
    evaluated = [line for line in read_log(output) if "eval_loss" in line]
    best = min(evaluated, key=lambda line: line["eval_loss"])["step"]
    left = sorted(int(path.name.split("-")[1]) for path in output.glob("checkpoint-*"))
    assert best < STEPS - 2 and left == [best, STEPS], f"best is {best}, left {left}"


def test_tokens_per_second(rows, folder):
    """Where a step has all rows: as many tokens as there are, without padding."""
    output = folder / "speed"
    path = write_run(folder / "speed.yaml", folder, "qwen2", "rows.jsonl",
                     {"output": str(output), "global_batch": len(rows), "micro_batch": 2, "steps": 2}, log={"every": 1})
    run_well(None, ["train", path])
    tokens, trained = sum(len(row["input_ids"]) for row in rows), tiny_models.trained_tokens(rows)
    for line in read_log(output):
        assert line["tokens"] == trained, line
        assert abs(line["tokens_per_second"] * line["step_seconds"] / tokens - 1) <= 1e-3, line


def test_no_data_to_evaluate_on_is_refused(rows, folder):
    path = write_run(folder / "refused.yaml", folder, "qwen2", "rows.jsonl", {"output": str(folder / "refused")})
    result = start(None, [BUILD / "trireme", "train", path, "--set", "data.valid=[]"])
    wanted = "eval.every = 4 has nothing to evaluate on"
    assert result.returncode == 2 and wanted in result.stderr, failure_text(result)
