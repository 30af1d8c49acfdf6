"""Learning rates of every schedule, as `trireme train` logs them, against transformers' schedulers. Theirs are one step late
during the warm-up, so what is compared begins after it."""
import json

import pytest
import torch
import transformers.optimization as peers

import tiny_models
from program import Launches, failure_text, run_many, words_of

LR, STEPS, WARMUP = 3e-4, 20, 4
SCHEDULES = {
    "cosine": (peers.get_cosine_schedule_with_warmup, {}, []),
    "linear": (peers.get_linear_schedule_with_warmup, {}, []),
    "wsd-cosine": (peers.get_wsd_schedule, dict(num_decay_steps=6), ["decay=0.3"]),
    "wsd-linear": (peers.get_wsd_schedule, dict(num_decay_steps=6, decay_type="linear", min_lr_ratio=0.25),
                   ["decay=0.3", "decay_shape=linear", f"min_lr={LR / 4}"]),
    "wsd-1-sqrt": (peers.get_wsd_schedule, dict(num_decay_steps=10, decay_type="1-sqrt"), ["decay=0.5", "decay_shape=1-sqrt"]),
    "cosine_with_restarts": (peers.get_cosine_with_hard_restarts_schedule_with_warmup, dict(num_cycles=3), ["cycles=3"]),
    "polynomial": (peers.get_polynomial_decay_schedule_with_warmup, dict(lr_end=LR / 10, power=2.5),
                   ["power=2.5", f"min_lr={LR / 10}"]),
    "inverse_sqrt": (peers.get_inverse_sqrt_schedule, {}, []),
}
CASES = [(name, warmup) for name in SCHEDULES for warmup in (0, WARMUP)]


def peer_rates(make, warmup, options):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LR)
    if make is not peers.get_inverse_sqrt_schedule:
        options = dict(num_training_steps=STEPS, **options)
    scheduler = make(optimizer, num_warmup_steps=warmup, **options)
    rates = []
    for _ in range(STEPS):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


@pytest.fixture(scope="module")
def inputs(folder):
    tiny_models.write_model(tiny_models.config_of("qwen2"), folder / "model")
    tiny_models.write_rows(folder / "rows.jsonl", tiny_models.make_rows(4, shortest=8, seed=5))
    (folder / "run.yaml").write_text("")
    return folder


def output_of(case, folder):
    return folder / "-".join(map(str, case))


def command_of(case, inputs):
    (name, warmup), settings = case, SCHEDULES[case[0]][2]
    optimizer = [f"lr={LR}", f"schedule={name.split('-')[0]}", f"warmup_steps={warmup}", *settings]
    return ["train", inputs / "run.yaml", *words_of([
        "device=cpu", "stage=sft", f"model.path={inputs / 'model'}", "tuning.kind=full", f"data.train=[{inputs / 'rows.jsonl'}]",
        "data.packing=false", "data.max_length=64", f"run.steps={STEPS}", "run.global_batch=1", "save.every=0",
        "log.every=1", f"run.output={output_of(case, inputs)}", *(f"optimizer.{setting}" for setting in optimizer)])]


def launch(cases, inputs):
    """All runs in one process."""
    result = run_many(None, [command_of(case, inputs) for case in cases])
    assert result.returncode == 0, failure_text(result)
    return [output_of(case, inputs) for case in cases]


@pytest.fixture(scope="module")
def launches(inputs):
    return Launches(CASES, lambda case: 1, lambda _, cases: launch(cases, inputs))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} after {case[1]} steps")
def test_schedule(case, launches, record_errors):
    (name, warmup), output = case, launches.of(case)
    make, options, _ = SCHEDULES[name]
    found = [json.loads(line)["learning_rate"] for line in (output / "log.jsonl").read_text().splitlines()]
    wanted = peer_rates(make, warmup, options)
    assert len(found) == STEPS
    error = max(abs(ours - theirs) / LR for ours, theirs in zip(found[warmup:], wanted[warmup:]))
    record_errors({"rate": error})
    assert error < 1e-12, f"{found}\n{wanted}"
