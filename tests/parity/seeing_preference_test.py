"""Preference training on images. DPO and KTO against TRL from the same records, in the shapes of TRL, ms-swift and LLaMA-Factory:
loss, gradient norm, rewards and log-probabilities of every step, and every gradient of the first. Then every stage under layouts
against one rank that computes each prompt, and so each image, once for every answer."""
import json

import pytest
import torch
import transformers
from safetensors.torch import load_file

import seeing_layouts
import seeing_peers as peers
from gradients import assert_within, largest_error, relative
from program import failure_text, run, run_grads, run_many, words_of

LIMITS = {"loss": 2e-5, "norm": 1e-4, "rewards": 2e-5, "logps": 3e-5, "gradient": 1e-4}
METRICS = ("rewards/chosen", "rewards/rejected", "rewards/margins", "logps/chosen", "logps/rejected", "kl")
LORA = ["tuning.kind=lora", "reference=base"]
# Features are kept where nothing of the tower is trained: each image passes it once, in the reference's pass.
KEPT = ["memory.vision_features_mb=8"]
CASES = {"dpo": ("dpo", []), "dpo lora": ("dpo", LORA), "dpo lora, kept": ("dpo", [*LORA, *KEPT]), "kto": ("kto", []),
         "dpo stored": ("dpo", ["preference.precompute_ref_log_probs=true"])}


@pytest.fixture(scope="module")
def inputs(folder):
    """The folder with a model, an adapter, records and their pictures."""
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    peers.write_model(folder / "model")
    pictures, questions = peers.draw_pictures(folder), peers.draw_questions(peers.STEPS * peers.BATCH)
    peers.adapted(peers.load(folder / "model")).save_pretrained(folder / "adapter")
    for stage, shape in (("dpo", peers.pair_in), ("kto", peers.judged_in)):
        lines = [json.dumps(shape(one, number)) + "\n" for number, one in enumerate(questions)]
        (folder / f"{stage}.jsonl").write_text("".join(lines))
    return folder, pictures, questions


def train_words(folder, name):
    stage, ours = CASES[name]
    settings = {
        "stage": stage, "device": "cpu", "model.path": folder / "model", "model.dtype": "fp32", "data.train": f"[{folder}/{stage}.jsonl]",
        "data.shuffle": "false", "data.packing": "false", "data.max_length": 256, "data.cache": folder / "cache",
        "optimizer.schedule": "constant", "optimizer.clip": 0, "optimizer.lr": peers.LR, "run.steps": peers.STEPS,
        "run.global_batch": peers.BATCH, "run.micro_batch": 1, "save.every": 0, "run.output": folder / "out" / name,
        **{f"optimizer.{key}": value for key, value in peers.peers.ADAMW.items()}}
    ours = [*ours, f"tuning.adapters={folder / 'adapter'}"] if "lora" in name else ["tuning.kind=full", *ours]
    (folder / f"{name}.yaml").write_text("")
    return ["train", folder / f"{name}.yaml", *words_of([f"{key}={value}" for key, value in settings.items()] + ours)]


@pytest.fixture(scope="module")
def trained(selected, inputs):
    return run_many(1, [train_words(inputs[0], name) for name in selected(test_against_trl, "name")])


def log_of(folder, name, result):
    path = folder / "out" / name / "log.jsonl"
    assert path.is_file(), failure_text(result)[-2500:]
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def trl(inputs):
    """What TRL trains, once for each kind."""
    folder, pictures, questions = inputs
    made = {}

    def of(name):
        kind = CASES[name][0], "lora" in name
        if kind not in made:
            made[kind] = peers.train(kind[0], folder / "model", questions, pictures, folder / "trl", lora=kind[1])
        return made[kind]
    return of


@pytest.mark.parametrize("name", CASES)
def test_against_trl(name, inputs, trained, trl, record_errors):
    log = log_of(inputs[0], name, trained)
    wanted, _ = trl(name)
    assert len(log) == len(wanted) == peers.STEPS
    errors = dict.fromkeys(("loss", "norm", "rewards", "logps"), 0.0)
    for ours, theirs in zip(log, wanted):
        errors["loss"] = max(errors["loss"], relative(ours["loss"], theirs["loss"]))
        errors["norm"] = max(errors["norm"], relative(ours["grad_norm"], theirs["grad_norm"]))
        for metric in METRICS:
            assert (metric in ours) == (metric in theirs), f"{metric} is in one of the logs only"
            if metric in ours:
                kind = "logps" if metric.startswith("logps") else "rewards"
                errors[kind] = max(errors[kind], abs(ours[metric] - theirs[metric]) / max(abs(theirs[metric]), 1.0))
    record_errors(errors)
    assert_within(errors, {kind: LIMITS[kind] for kind in errors})
    if "kept" in name:  # the reference's pass computes them, unless an image was there before; the policy's takes them
        assert all(line["kept_images"] > 0 for line in log), log


def p(**sizes):
    return [f"parallel.{axis}={size}" for axis, size in sizes.items()]


ZERO3, FULL = "parallel.zero=3", "memory.recompute=full"
# Stage, ranks, settings. Every stage with and without a shared prompt, every way of sharing work.
LAYOUTS = [
    ("dpo", 1, ["run.micro_batch=2", FULL]),
    ("dpo", 2, [*p(tensor=2)]),
    ("dpo", 2, [*p(context=2), "parallel.context_method=ring"]),
    ("dpo", 2, [*p(pipeline=2), "parallel.schedule=zero_bubble", ZERO3]),
    ("dpo", 2, [ZERO3, "memory.shard_reference=true", "run.micro_batch=2"]),
    ("kto", 2, [*p(tensor=2), "run.micro_batch=2"]),
    ("bco", 2, [*p(context=2), "parallel.context_method=ulysses"]),
    ("orpo", 2, [*p(tensor=2), FULL]),
    ("simpo", 2, [*p(pipeline=2)]),
    ("cpo", 2, [ZERO3]),
]
FROZEN = "tuning.freeze=[vision, aligner]"


def text(case):
    stage, ranks, settings = case
    return " ".join([stage, str(ranks), *(word.split(".")[1] for word in settings)])


def rows_of(folder, stage, count=6):
    """Of tokens, as `grads` takes them, of the first records; images are named."""
    path = folder / f"rows-{stage}-{count}.jsonl"
    if not path.exists():
        processor, lines = peers.processor_of(folder / "model"), []
        pictures = {f"{number}.png": peers.PIL.Image.open(folder / f"{number}.png") for number in range(len(peers.SIZES))}
        for number, one in enumerate(peers.draw_questions(count)):
            asked = [{"role": "user", "content": peers.parts_of(one)}]
            prompt = processor.apply_chat_template(asked, add_generation_prompt=True)
            images = [pictures[name] for name in peers.pictures_of(one)]
            ids = processor(text=[prompt], images=images or None)["input_ids"][0]
            line = {"prompt_ids": ids, **({"images": peers.pictures_of(one)} if images else {})}
            answers = [processor.tokenizer(one[side] + "<|im_end|>\n")["input_ids"] for side in ("good", "bad")]
            if stage in ("kto", "bco"):
                line |= {"completion_ids": answers[number % 3 == 1], "label": number % 3 != 1}
            else:
                line |= {"chosen_ids": answers[0], "rejected_ids": answers[1]}
            lines.append(json.dumps(line) + "\n")
        path.write_text("".join(lines))
    return path


def grads_words(folder, stage, settings, out, count=6):
    return ["grads", "--model", folder / "model", "--rows", rows_of(folder, stage, count), "--out", folder / out,
            *words_of(["device=cpu", f"stage={stage}", f"data.cache={folder / 'cache'}", *settings])]


@pytest.mark.parametrize("stage", ["dpo", "kto"])
def test_gradients_against_trl(stage, inputs, trl, record_errors):
    folder = inputs[0]
    (found,) = run_grads(1, [grads_words(folder, stage, ["run.micro_batch=2"], f"first-{stage}.safetensors", peers.BATCH)])
    assert found.line is not None, failure_text(found.result)[-2500:]
    gradients, (_, wanted) = load_file(found.out), trl(stage)
    assert wanted.keys() <= gradients.keys(), sorted(wanted.keys() - gradients.keys())[:4]
    errors = {"gradient": largest_error(gradients, wanted)}
    record_errors(errors)
    assert_within(errors, {"gradient": LIMITS["gradient"]})


@pytest.fixture(scope="module")
def plain(selected, inputs):
    """By stage: one rank, one pair at a time, each prompt twice."""
    stages = list(dict.fromkeys(case[0] for case in selected(test_layouts)))
    found = run_grads(1, [grads_words(inputs[0], stage, ["run.micro_batch=1", "preference.share_prompt=false"],
                                      f"one-{stage}.safetensors") for stage in stages])
    return dict(zip(stages, found))


@pytest.fixture(scope="module")
def launches(selected, inputs):
    return seeing_layouts.launches_of(selected(test_layouts), inputs[0], grads_words)


@pytest.mark.parametrize("case", LAYOUTS, ids=text)
def test_layouts(case, plain, launches, record_errors):
    one, found = plain[case[0]], launches.of(case)
    errors = seeing_layouts.errors_of(one, found)
    assert any(name.startswith("visual.") and tensor.abs().max() > 0 for name, tensor in load_file(one.out).items())
    record_errors(errors)
    assert_within(errors, {"loss": 1e-5, "gradient": 1e-4})


def test_a_frozen_tower_changes_nothing_else(inputs, plain):
    folder = inputs[0]
    (outcome,) = run_grads(1, [grads_words(folder, "dpo", [FROZEN, *KEPT], "frozen.safetensors")])
    assert outcome.line is not None, failure_text(outcome.result)[-2500:]
    found, wanted = load_file(outcome.out), load_file(plain["dpo"].out)
    assert found.keys() == {name for name in wanted if not name.startswith("visual.")}
    assert largest_error(found, {name: wanted[name] for name in found}) <= LIMITS["gradient"]


def test_broken_records_are_named(inputs):
    folder = inputs[0]
    lines = (folder / "dpo.jsonl").read_text().splitlines()
    broken = json.loads(lines[1])
    broken["images"] = broken["images"][:-1] + ["none.png"]
    (folder / "broken.jsonl").write_text("\n".join([lines[0], json.dumps(broken)]) + "\n")
    words = train_words(folder, "dpo") + words_of([f"data.train=[{folder / 'broken.jsonl'}]", f"run.output={folder / 'never'}"])
    result = run(None, words)
    assert result.returncode == 2 and not (folder / "never").exists(), failure_text(result)
    assert "broken.jsonl:2" in result.stderr and "none.png" in result.stderr, failure_text(result)
