"""`trireme serve --train` against the client packages themselves (tinker 0.16.1, 0.24.1: JSON; 0.36.0: protobuf;
twinkle-kit 0.5.1 over 0.16.1) and against
PEFT with torch's AdamW: every loss, log-probability and weight of a loop, under several layouts; samples have the
log-probabilities of the training pass; a client resumes from its checkpoint; what is wrong is refused at once. With --device npu
one rank and two on the twin."""
import json
import pathlib
import random
import re
import subprocess

import peft
import pytest
import torch
import transformers

import lora_adapters
import tiny_models
from program import HANG_SECONDS, TORCH_NPU, words_of
from served import VOCABULARY, Server, add_tokenizer

OPTIONS = ("full", "device")
LAYOUTS = {"alone": (None, []), "tensor": (2, ["parallel.tensor=2"]), "pipeline": (2, ["parallel.pipeline=2"]),
           "zero": (2, ["parallel.zero=3"]), "expert": (2, ["parallel.expert=2"]), "context": (2, ["parallel.context=2"])}
# Version of the client, family, layout, rank.
CASES = [("twinkle-0.5.1", "qwen3", "alone", 8), ("0.24.1", "qwen3", "tensor", 16), ("0.36.0", "qwen3_moe", "expert", 4),
         ("0.16.1", "qwen3", "pipeline", 5), ("0.24.1", "qwen3", "zero", 8), ("0.36.0", "qwen3", "context", 8)]
MAX_RANK = 16
LOSSES = {"importance_sampling": None, "ppo": {"clip_low_threshold": 0.9, "clip_high_threshold": 1.1}, "cispo": None,
          "dro": {"beta": 0.05}}
CLOSE = 1e-4
ROUNDING = 2e-6  # of a gradient's element in fp32, by the largest one of its tensor


# On npu every rank imports torch_npu, which takes longer than what is tested.
NPU_CASES = [("0.36.0", "qwen3", "alone", 8), ("0.24.1", "qwen3", "tensor", 4)]


def make_plan(rank):
    draw = random.Random(5)
    rows = []
    for count in (7, 12, 3):  # fewer rows than data-parallel ranks have micro batches, and one much shorter
        tokens = [draw.randrange(250) for _ in range(count + 1)]
        rows.append({"tokens": tokens[:-1], "targets": tokens[1:], "weights": [draw.choice([0, 1, 0.5, -0.25]) for _ in range(count)],
                     "advantages": [draw.uniform(-1, 1) for _ in range(count)], "noise": [draw.uniform(-0.3, 0.3) for _ in range(count)]})
    adam = {"learning_rate": 1e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8}
    steps = [{"loss": "cross_entropy", "adam": adam} for _ in range(10)]
    steps += [{"loss": loss, "config": config, "adam": {**adam, "learning_rate": 5e-4}} for loss, config in LOSSES.items()]
    return {"rank": rank, "rows": rows, "steps": steps, "many": make_many(draw, adam)}


def make_many(draw, adam):
    """Models that differ in rank, seed, rows and losses, trained at once; one that does other passes than the rest."""
    models = []
    for number, (rank, losses) in enumerate([(4, ["cross_entropy"] * 4), (16, ["cross_entropy", "ppo"] * 2), (7, ["cross_entropy"] * 4),
                                             (1, ["importance_sampling"] * 3)]):
        rows = []
        for count in range(3 + number, 12, 4):
            tokens = [draw.randrange(250) for _ in range(count + 1)]
            rows.append({"tokens": tokens[:-1], "targets": tokens[1:], "weights": [draw.choice([0, 1, 0.5]) for _ in range(count)],
                         "advantages": [draw.uniform(-1, 1) for _ in range(count)], "logprobs": [draw.uniform(-6, -5) for _ in range(count)]})
        steps = [{"loss": loss, "config": LOSSES.get(loss), "adam": {**adam, "learning_rate": 1e-3 / (number + 1)}} for loss in losses]
        models.append({"rank": rank, "seed": number, "rows": rows, "steps": steps})
    return models


def policy_loss(loss, config, p, q, a):
    ratio = torch.exp(p - q)
    if loss == "importance_sampling":
        return -(ratio * a).sum()
    if loss == "ppo":
        return -torch.minimum(ratio * a, ratio.clamp(config["clip_low_threshold"], config["clip_high_threshold"]) * a).sum()
    if loss == "cispo":
        return -(ratio.clamp(0, 4).detach() * p * a).sum()
    return -(p * a - 0.5 * config["beta"] * (p - q) ** 2).sum()


def logprobs_of(model, row):
    logits = model(input_ids=torch.tensor([row["tokens"]])).logits[0].float()
    return torch.log_softmax(logits, -1).gather(1, torch.tensor(row["targets"])[:, None])[:, 0]


def keep_adapters_apart(model):
    """Of experts' gate and up, which are one matrix there: the program has an adapter for each, which share nothing."""
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and "lora_B" in name and lora_adapters.is_gate_up(name, parameter, model):
            parameter.grad.mul_(lora_adapters.two_blocks(parameter, lora_adapters.experts_of(model)))


def replay(model, plan, answers):
    """The same loop with PEFT and torch: by step the loss and the log-probabilities; and how far rounding may move each element
    of a parameter: AdamW divides by the size of the element's own gradients, however small they are."""
    parameters = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(parameters, weight_decay=0)
    found, moved = [], {parameter: torch.zeros_like(parameter) for parameter in parameters}
    for number, (step, answer) in enumerate(zip(plan["steps"], answers), start=1):
        optimizer.zero_grad()
        total, probabilities = 0, []
        for i, row in enumerate(plan["rows"]):
            p = logprobs_of(model, row)
            probabilities.append(p.tolist())
            if step["loss"] == "cross_entropy":
                total = total - (torch.tensor(row["weights"]) * p).sum()
            else:
                total = total + policy_loss(step["loss"], step["config"], p, torch.tensor(answer["old"][i] if "old" in answer else row["logprobs"]), torch.tensor(row["advantages"]))
        total.backward()
        keep_adapters_apart(model)
        norm = torch.nn.utils.get_total_norm([one.grad for one in parameters if one.grad is not None]).item()
        group = optimizer.param_groups[0]
        group.update(lr=step["adam"]["learning_rate"], betas=(step["adam"]["beta1"], step["adam"]["beta2"]), eps=step["adam"]["eps"])
        optimizer.step()
        for parameter, sum_of in moved.items():
            if parameter.grad is None:
                continue
            size = (optimizer.state[parameter]["exp_avg_sq"] / (1 - step["adam"]["beta2"] ** number)).sqrt() + step["adam"]["eps"]
            # An exact zero has no rounding: an expert without tokens, A while B is zero.
            rounded = (ROUNDING * parameter.grad.abs().max() / size).clamp(max=2) * (parameter.grad != 0)
            sum_of += step["adam"]["learning_rate"] * rounded
        found.append({"loss": total.item(), "logprobs": probabilities, "norm": norm})
    return found, {name.replace(".default", ""): moved[one] for name, one in model.named_parameters() if one.requires_grad}


def write_model(folder, family):
    changes = {"mlp_only_layers": []} if family == "qwen3_moe" else {}
    tiny_models.write_model(tiny_models.config_of(family, vocab_size=VOCABULARY, num_hidden_layers=2, **changes), folder)
    add_tokenizer(folder)


def run_client(version, url, plan, folder):
    interpreter = pathlib.Path(f".venv-parity-tinker-{version}/bin/python")
    if not interpreter.exists():
        pytest.skip(f"tinker {version} is not installed; scripts/setup --parity does it")
    (folder / "plan.json").write_text(json.dumps(plan))
    done = subprocess.run([interpreter, "tests/parity/remote_script.py", "tests/parity/remote_client.py", url, folder / "plan.json", folder / "result.json"],
                          capture_output=True, text=True, timeout=HANG_SECONDS, env={"TINKER_TELEMETRY": "1", "HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads((folder / "result.json").read_text())


def checkpoint_of(kept, path):
    run, kind, name = path.removeprefix("tinker://").split("/")
    return next(kept.glob(f"*/{run}/{kind}/{name}"))


def largest_error(mine, theirs):
    mine, theirs = torch.tensor(mine), torch.tensor(theirs)
    return ((mine - theirs).abs().max() / theirs.abs().max().clamp(min=1)).item()


@pytest.mark.devices("cpu")
@pytest.mark.parametrize("version, family, layout, rank", CASES)
def test_a_loop_equals_peft(tmp_path, version, family, layout, rank):
    check_loop(tmp_path, version, family, layout, rank)


@pytest.mark.devices("npu")
@pytest.mark.parametrize("version, family, layout, rank", NPU_CASES)
def test_a_loop_on_npu_equals_peft(tmp_path, version, family, layout, rank):
    check_loop(tmp_path, version, family, layout, rank, "device=npu")


def check_loop(tmp_path, version, family, layout, rank, *more):
    model = tmp_path / "model"
    write_model(model, family)
    ranks, settings = LAYOUTS[layout]
    words = words_of([*settings, *more])
    kept = tmp_path / "kept"
    server = Server(tmp_path, "--train", "--train-directory", kept, "--train-max-rank", MAX_RANK, "--train-together", 3, "--train-in-memory", 2, *words, ranks=ranks, variables=TORCH_NPU, model=model)
    plan = make_plan(rank)
    try:
        result = run_client(version, server.url.removesuffix("/v1"), plan, tmp_path)
    finally:
        status = server.stop()
        assert status == 0 or ranks is not None, server.log.read_text()[-3000:]  # mpirun has a status of its own
    assert result["models"] == ["model"] and result["info"] == str(model)
    start, end = checkpoint_of(kept, result["start"]), checkpoint_of(kept, result["end"])
    compare_run(model, start, end, plan, result["steps"])
    compare_samples(result["sample"])
    compare_refusals(result["refusals"])
    first, second = result["resumed"]
    assert first["metrics"] == pytest.approx(second["metrics"], rel=1e-6)
    assert first["logprobs"] == [pytest.approx(one, abs=1e-6) for one in second["logprobs"]]
    for of_model, one in zip(plan["many"], result["many"], strict=True):
        compare_run(model, checkpoint_of(kept, one["start"]), checkpoint_of(kept, one["end"]), of_model, one["steps"])
    assert "wait in files" in server.log.read_text() and not (kept / ".idle").exists()
    passes, requests = map(int, re.search(r"ran (\d+) passes for (\d+) requests", server.log.read_text()).groups())
    assert passes < requests, "no passes of different models were joined"


def compare_run(model, start, end, plan, steps):
    """Every number of a model's loop against PEFT and torch."""
    base = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    tuned = peft.PeftModel.from_pretrained(base, start, is_trainable=True).train()
    found, rounding = replay(tuned, plan, steps)
    for number, (mine, theirs) in enumerate(zip(steps, found, strict=True)):
        where = (number, plan["steps"][number]["loss"])
        assert list(mine["metrics"]) == ["loss:sum"], where
        assert abs(mine["metrics"]["loss:sum"] - theirs["loss"]) < CLOSE * max(1, abs(theirs["loss"])), where
        assert abs(mine["step_metrics"]["grad_norm"] - theirs["norm"]) < 1e-3 * theirs["norm"], where
        for a, b in zip(mine["logprobs"], theirs["logprobs"], strict=True):
            assert largest_error(a, b) < CLOSE, where
    compare_weights(end, tuned, rounding)


def compare_weights(end, tuned, rounding):
    """Element by element, where gradients are above rounding, which most are; all of them in norm."""
    wanted = peft.get_peft_model_state_dict(tuned)
    loaded = peft.PeftModel.from_pretrained(tuned.get_base_model().__class__(tuned.config), end)
    saved = peft.get_peft_model_state_dict(loaded)
    assert sorted(saved) == sorted(wanted)
    compared = elements = 0
    for name, weight in wanted.items():
        apart, most = (saved[name] - weight).abs(), CLOSE * weight.abs().max()
        above = rounding[name] <= most / 2
        assert not (apart[above] > most).any(), (name, (apart[above].max() / most * CLOSE).item())
        assert apart.norm() <= 2e-3 * weight.norm() + 1e-6, name
        compared, elements = compared + above.sum().item(), elements + above.numel()
    assert compared > 0.7 * elements, (compared, elements)


def compare_samples(sample):
    for one, scored in zip(sample["sequences"], sample["scored"], strict=True):
        assert len(one["tokens"]) == len(one["logprobs"]) == 6 and "length" in one["reason"].lower()
        known = scored[len(sample["prompt"]):]
        assert largest_error(one["logprobs"], known) < 1e-3  # sampler = trainer
        assert scored[0] is None or scored[0] != scored[0]
    assert sample["sequences"][0]["tokens"] != sample["sequences"][1]["tokens"]


def compare_refusals(refusals):
    for name, word in (("token", "outside the vocabulary"), ("length", "weights"), ("input", "colour"), ("path", "path"), ("foreign", "no such checkpoint")):
        assert word in refusals[name]["text"], (name, refusals[name])
        assert refusals[name]["seconds"] < 20, (name, refusals[name])
