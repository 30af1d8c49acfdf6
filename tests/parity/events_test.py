"""The event files of a run, read by TensorBoard itself: every number of log.jsonl, also where a run was cut off and
resumed, so that some steps were written twice; and a file whose bytes were changed is refused, so that its checksums
count."""
import json
import shutil

import numpy
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from program import run_well

# the log's keys by TensorBoard's names
CURVES = {"train/loss": "loss", "train/grad_norm": "grad_norm", "train/learning_rate": "learning_rate",
          "train/epoch": "epoch", "speed/tokens_per_second": "tokens_per_second", "speed/mfu": "mfu",
          "speed/step_seconds": "step_seconds", "speed/memory_gib": "memory_gib", "eval/loss": "eval_loss",
          "eval/token_accuracy": "eval_token_accuracy", "eval/perplexity": "eval_perplexity"}


def train(output, steps):
    settings = [f"run.output={output}", f"run.steps={steps}", "save.every=3", "log.every=1", "eval.every=2",
                "data.valid_ratio=0.2", "save.keep=0", "optimizer.schedule=constant",
                "optimizer.lr=0"]  # numbers that are 0 are shown, too
    run_well(None, ["train", "examples/bytes/run.yaml"], settings, threads=2)
    return [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]


def read(folder):
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    accumulator.Reload()
    return {tag: [(event.step, event.value) for event in accumulator.Scalars(tag)]
            for tag in accumulator.Tags()["scalars"]}


def assert_same_curves(events, log, record_property):
    found = read(events)
    wanted = {tag: [(line["step"], float(numpy.float32(line[key]))) for line in log if key in line]
              for tag, key in CURVES.items()}
    assert found.keys() == wanted.keys()
    for tag, curve in wanted.items():
        assert found[tag] == curve, tag
    record_property("numbers", f"{sum(map(len, found.values()))} in {len(found)} curves")


@pytest.fixture(scope="module")
def first(folder):
    """The log of a run, and its events as they were then."""
    log = train(folder / "run", 5)
    shutil.copytree(folder / "run/events", folder / "events")
    return log, folder / "events"


@pytest.fixture(scope="module")
def second(first, folder):
    """The log of the same run, cut off after step 5 and started again, and its output."""
    output = folder / "run"
    shutil.rmtree(output / "checkpoint-5")
    shutil.rmtree(output / "final")
    return train(output, 6), output


def test_one_start(first, record_property):
    assert_same_curves(first[1], first[0], record_property)


def test_second_start_from_step_3(second, record_property):
    log, output = second
    files = sorted((output / "events").iterdir())
    assert [line["step"] for line in log] == [1, 2, 3, 4, 5, 6] and len(files) == 2, (log, files)
    assert_same_curves(output / "events", log, record_property)


def test_changed_record_is_refused(first, folder):
    broken, file = folder / "broken", next(first[1].iterdir())
    broken.mkdir()
    data = bytearray(file.read_bytes())
    data[-10] ^= 1  # within the last record
    (broken / file.name).write_bytes(data)
    assert len(read(broken).get("train/loss", [])) == 4, f"TensorBoard takes a changed record for whole: {read(broken)}"


def test_chart_has_axes_and_three_evaluations(second):
    chart = (second[1] / "loss.svg").read_text()
    assert chart.startswith("<svg") and chart.count("<circle") == 3 and ">step<" in chart and ">loss<" in chart, chart[:500]
