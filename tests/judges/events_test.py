#!/usr/bin/env python3
"""A run's event files, read by TensorBoard itself: every number of log.jsonl, also where a run was interrupted and
resumed, so that some steps were written twice; and a file with changed bytes is refused, which shows that its checksums
are checked."""
import json
import pathlib
import shutil
import sys
import tempfile

import numpy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from program import failure_text, run

# the log's keys by TensorBoard's tags
CURVES = {"train/loss": "loss", "train/grad_norm": "grad_norm", "train/learning_rate": "learning_rate",
          "train/epoch": "epoch", "speed/tokens_per_second": "tokens_per_second", "speed/mfu": "mfu",
          "speed/step_seconds": "step_seconds", "speed/memory_gib": "memory_gib", "eval/loss": "eval_loss",
          "eval/token_accuracy": "eval_token_accuracy"}


def train(output, steps):
    settings = [f"run.output={output}", f"run.steps={steps}", "run.save_every=3", "run.log_every=1", "run.eval_every=2",
                "data.valid_ratio=0.2", "run.keep=0", "optimizer.schedule=constant",
                "optimizer.lr=0"]  # zeros are shown too
    result = run(None, ["train", "examples/bytes/run.yaml"], settings, threads=2)
    if result.returncode != 0:
        sys.exit(f"FAILED: {failure_text(result)}")
    return [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]


def read(folder):
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    accumulator.Reload()
    return {tag: [(event.step, event.value) for event in accumulator.Scalars(tag)]
            for tag in accumulator.Tags()["scalars"]}


def compare(what, folder, log):
    found = read(folder)
    wanted = {tag: [(line["step"], float(numpy.float32(line[key]))) for line in log if key in line]
              for tag, key in CURVES.items()}
    for tag in sorted(found.keys() | wanted.keys()):
        if found.get(tag) != wanted.get(tag):
            sys.exit(f"FAILED: {what}: {tag}: TensorBoard has {found.get(tag)}, the log {wanted.get(tag)}")
    print(f"ok: {what}: {sum(map(len, found.values()))} numbers in {len(found)} curves")


def main():
    with tempfile.TemporaryDirectory() as scratch:
        output = pathlib.Path(scratch) / "run"
        compare("one start", output / "events", train(output, 5))
        shutil.rmtree(output / "checkpoint-5")  # as if it had been killed after step 5
        shutil.rmtree(output / "final")
        log = train(output, 6)
        files = sorted((output / "events").iterdir())
        assert [line["step"] for line in log] == [1, 2, 3, 4, 5, 6] and len(files) == 2, (log, files)
        compare("a second start, from step 3", output / "events", log)
        broken = pathlib.Path(scratch) / "broken"
        broken.mkdir()
        data = bytearray(files[0].read_bytes())
        data[-10] ^= 1  # within the last record
        (broken / files[0].name).write_bytes(data)
        if len(read(broken).get("train/loss", [])) != 4:
            sys.exit(f"FAILED: TensorBoard accepts a changed record: {read(broken)}")
        print("ok: a changed record is refused")
        chart = (output / "loss.svg").read_text()
        if not (chart.startswith("<svg") and chart.count("<circle") == 3 and ">step<" in chart and ">loss<" in chart):
            sys.exit(f"FAILED: loss.svg: {chart[:500]}")
        print("ok: loss.svg has axes and three evaluations")
    return 0


if __name__ == "__main__":
    sys.exit(main())
