"""`trireme translate` against TRL's own command: the same words, translated and run by both on the CPU in fp32, have the same loss
in each of ten steps. A step takes the whole data, so that its order does not matter; two ways to make a step of that size,
and both schedules. No warm-up, whose first step is another one (the translation says so)."""
import json
import pathlib

import pytest
import transformers
from trl.scripts import sft

import packing_test
from gradients import assert_within
from program import failure_text, run

STEPS, ROWS = 10, 12
CASES = {"one micro batch": ["--per_device_train_batch_size", "12", "--lr_scheduler_type", "linear", "--weight_decay", "0.1"],
         "accumulated": ["--per_device_train_batch_size", "3", "--gradient_accumulation_steps", "4", "--lr_scheduler_type",
                         "cosine", "--max_grad_norm", "0.5"]}


@pytest.fixture(scope="module")
def inputs(folder):
    transformers.utils.logging.set_verbosity_error()
    packing_test.write_model(folder / "model")
    rows = (packing_test.ROOT / "examples/chat/days.jsonl").read_text().splitlines()[:ROWS]
    (folder / "data").mkdir()
    (folder / "data/train.jsonl").write_text("\n".join(rows) + "\n")
    return folder


def words(folder, output, more):
    return ["--model_name_or_path", str(folder / "model"), "--dataset_name", str(folder / "data"), "--output_dir", str(output),
            "--learning_rate", "1e-3", "--max_steps", str(STEPS), "--max_length", "256", "--logging_steps", "1", "--save_steps",
            str(STEPS), "--use_cpu", "true", "--bf16", "false", "--dtype", "float32", "--report_to", "none",
            "--gradient_checkpointing", "false", *more]


def theirs(folder, name):
    output = folder / f"{name}-trl"
    script, training, model, data, *_ = sft.make_parser().parse_args_and_config(words(folder, output, CASES[name]))
    sft.main(script, training, model, data)
    state = json.loads((output / f"checkpoint-{STEPS}/trainer_state.json").read_text())
    return [line["loss"] for line in state["log_history"] if "loss" in line]


def ours(folder, name):
    output, file = folder / f"{name}-ours", folder / f"{name}.yaml"
    translated = run(None, ["translate", "--to", file, "trl", "sft", *words(folder, output, CASES[name])])
    assert translated.returncode == 0, failure_text(translated)
    trained = run(None, ["train", file])
    assert trained.returncode == 0, failure_text(trained)
    return [json.loads(line)["loss"] for line in pathlib.Path(output / "log.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", CASES)
def test_ten_losses(name, inputs, record_errors):
    wanted, found = theirs(inputs, name), ours(inputs, name)
    assert len(wanted) == len(found) == STEPS
    errors = {"loss": max(abs(one - other) / one for one, other in zip(wanted, found))}
    record_errors(errors)
    assert_within(errors, {"loss": 1e-4})
    assert wanted[-1] < 0.8 * wanted[0], "ten steps that learn"
