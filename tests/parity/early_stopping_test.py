"""When a run ends early, against transformers' EarlyStoppingCallback; what final/ then holds; what is saved at the end of
epochs; and fractions of epochs."""
import json

import pytest
import safetensors.torch
import torch
import transformers
from transformers.trainer_callback import TrainerControl, TrainerState

import tiny_models
from program import failure_text, run_many, run_well, words_of

STEPS = 24


def write_run(path, folder, output, **more):
    """Rows by heart make other rows worse: the loss on those rises."""
    sections = {
        "device": "cpu", "model": {"path": str(folder / "model"), "dtype": "fp32"}, "tuning": {"kind": "full"},
        "data": {"train": [str(folder / "rows.jsonl")], "valid": [str(folder / "others.jsonl")], "packing": False,
                 "max_length": 64},
        "optimizer": {"lr": 2e-2, "schedule": "constant", "weight_decay": 0},
        "run": {"steps": STEPS, "global_batch": 2, "output": str(output), **more.get("run", {})},
        "eval": more.get("eval", {}), "save": {"every": 0, "keep": 0, **more.get("save", {})}, "log": {"every": 1},
    }
    path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in sections.items()))
    return path


@pytest.fixture(scope="module")
def inputs(folder):
    tiny_models.write_model(tiny_models.config_of("qwen2", num_hidden_layers=2), folder / "model")
    rows = [row for row in tiny_models.make_rows(6, shortest=8, seed=7) if tiny_models.trained_tokens([row])]
    assert len(rows) == 5, len(rows)  # three steps per epoch
    tiny_models.write_rows(folder / "rows.jsonl", rows)
    tiny_models.write_rows(folder / "others.jsonl", tiny_models.make_rows(3, shortest=8, seed=8))
    return folder


def read_log(output):
    return [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]


def evaluations(output):
    return [(line["step"], line["eval_loss"]) for line in read_log(output) if "eval_loss" in line]


def stops_after(losses, patience, threshold):
    """The evaluation after which transformers ends training; None: it does not."""
    callback = transformers.EarlyStoppingCallback(patience, threshold)
    args = transformers.TrainingArguments(output_dir="unused", metric_for_best_model="loss", greater_is_better=False,
                                          report_to=[], use_cpu=True)
    state, control = TrainerState(), TrainerControl()
    for number, loss in enumerate(losses):
        control = callback.on_evaluate(args, state, control, {"eval_loss": loss}) or control
        if control.should_training_stop:
            return number
        if state.best_metric is None or loss < state.best_metric:
            state.best_metric = loss
    return None


def checkpoints(output):
    return sorted(int(path.name.split("-")[1]) for path in output.glob("checkpoint-*"))


@pytest.mark.parametrize("ranks", [None, 2])
@pytest.mark.parametrize("patience, threshold", [(2, 0), (1, 0.05)])
def test_ends_where_transformers_would(patience, threshold, ranks, inputs):
    early, never = ({"every": 2, "early_stopping": ends, "early_stopping_threshold": by} for ends, by in ((patience, threshold), (0, 0)))
    free, output = (inputs / f"{kind}-{patience}-{ranks}" for kind in ("free", "early"))
    paths = [write_run(one.with_suffix(".yaml"), inputs, one, eval=evaluates, save={"final_from": "best"})
             for one, evaluates in ((free, never), (output, early))]
    layout = words_of(["parallel.pipeline=2"] if ranks else [])
    again = ["train", paths[1], *layout]
    result = run_many(ranks, [["train", paths[0], *layout], again, again])
    assert (output / "final").exists(), failure_text(result)
    losses = [loss for _, loss in evaluations(free)]
    assert len(losses) == STEPS // 2
    last = stops_after(losses, patience, threshold)
    assert last is not None and last + 1 < len(losses), f"nothing ends early: {losses}"
    found = evaluations(output)
    assert [step for step, _ in found] == [2 * (number + 1) for number in range(last + 1)], f"{found} of {losses}"
    assert "eval.early_stopping ended the run" in result.stdout, failure_text(result)
    assert "already complete" in result.stdout, failure_text(result)  # the second time
    # final/ is the best checkpoint, not the last one.
    best = min(found, key=lambda one: one[1])[0]
    assert best < found[-1][0] and {best, found[-1][0]} <= set(checkpoints(output)), checkpoints(output)
    exported = inputs / f"exported-{patience}-{ranks}"
    run_well(None, ["convert", "--from", output / f"checkpoint-{best}", "--to", exported])
    ours, theirs = (safetensors.torch.load_file(one / "model.safetensors") for one in (output / "final", exported))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert f"of step {best}, whose evaluation loss was the lowest" in result.stdout, failure_text(result)


def test_a_resumed_run_counts_on(inputs):
    """The run is stopped by the number of steps, and goes on with more of them: patience counts over both."""
    output, free = inputs / "resumed", inputs / "unbroken"
    more = {"eval": {"every": 2, "early_stopping": 2}, "save": {"final_from": "best", "every": 2}}
    run_well(None, ["train", write_run(free.with_suffix(".yaml"), inputs, free, **more)])
    end = evaluations(free)[-1][0]
    path = write_run(output.with_suffix(".yaml"), inputs, output, **more)
    for steps in (end - 2, STEPS):  # the first start ends one evaluation before
        run_well(None, ["train", path], [f"run.steps={steps}"])
    assert evaluations(output) == evaluations(free)
    finals = [safetensors.torch.load_file(one / "final/model.safetensors") for one in (free, output)]
    assert all(torch.equal(finals[0][name], finals[1][name]) for name in finals[0])


def test_epochs(inputs):
    """Five rows, two per step: three steps per epoch. As transformers, a fraction of an epoch takes whole steps."""
    runs = {"part": ({"epochs": 0.5}, 2, [2], []), "more": ({"epochs": 2.5}, 8, [3, 6, 8], [3, 6, 8])}
    for name, (run, steps, saved, evaluated) in runs.items():
        path = write_run(inputs / f"{name}.yaml", inputs, inputs / name, run={"steps": 0, **run}, save={"every_epoch": True},
                         eval={"every_epoch": bool(evaluated)})
        settings = [] if evaluated else ["data.valid=[]"]
        run_well(None, ["train", path], settings)
        assert [line["step"] for line in read_log(inputs / name)] == list(range(1, steps + 1))
        assert checkpoints(inputs / name) == saved
        assert [step for step, _ in evaluations(inputs / name)] == evaluated
