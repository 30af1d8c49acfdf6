"""PPO on given completions against TRL 1.12, four updates in fp32: rewards, values, advantages and returns of every token, the
losses and gradient norms of policy and value model, metrics of samplings. Then layouts: the same as one rank; a run that
stops and resumes: the same bits; the value model as transformers loads it."""
import json
import os
import pathlib
import subprocess
import sys

import pytest
import torch
import transformers

import ppo_peers as peers
import preference_peers
import reward_peers
import tiny_models
from gradients import assert_within
from program import failure_text, run_many, start, words_of, BUILD

# Where scripts/setup --parity puts the version of TRL that has PPO.
TRL = pathlib.Path(__file__).resolve().parents[2] / ".venv-parity-trl-ppo"
LIMITS = {"tokens": 1e-5, "loss": 1e-5, "norm": 1e-4, "metrics": 2e-5}
UPDATES = 4
TOKENS = ("token_rewards", "values", "returns", "token_advantages")
METRICS = ("objective/kl", "objective/entropy", "objective/non_score_reward", "objective/rlhf_reward", "objective/scores")
AVERAGES = ("loss/policy_avg", "loss/value_avg", "policy/clipfrac_avg", "val/clipfrac_avg")


def case(ours=(), theirs=None, epochs=2, parts=1, beta=0.05, rollouts="rollouts"):
    """Our settings and TRL's; epochs over each sampling, of so many mini batches."""
    return dict(ours=[f"rl.iterations={epochs}", f"rl.steps_per_generation={parts}", f"rl.beta={beta}", *ours],
                theirs=dict(num_ppo_epochs=epochs, num_mini_batches=parts, kl_coef=beta, temperature=1.0) | (theirs or {}),
                samplings=UPDATES // (epochs * parts), rollouts=rollouts, beta=beta)


CASES = {
    "plain": case(),
    "mini batches": case(parts=2),
    "options": case(["rl.kl_estimator=k3", "rl.gamma=0.97", "rl.lam=0.9", "rl.vf_coef=0.5", "rl.cliprange_value=0.02",
                     "rl.epsilon=0.05", "rl.epsilon_high=0.05", "rl.missing_eos_penalty=0.7", "rl.temperature=0.7"],
                    dict(kl_estimator="k3", gamma=0.97, lam=0.9, vf_coef=0.5, cliprange_value=0.02, cliprange=0.05,
                         missing_eos_penalty=0.7, temperature=0.7), beta=0.2),
    "whitened": case(["rl.whiten_rewards=true"], dict(whiten_rewards=True), beta=0.2),
    "without kl": case(beta=0.0),
    "groups": case(["rl.group=4"], rollouts="groups"),
    "groups packed": case(["rl.group=4", "data.packing=true"], rollouts="groups"),
}
LAYOUTS = {
    "tp2": (2, ["parallel.tensor=2"]),
    "pp2": (2, ["parallel.pipeline=2", "run.micro_batch=2"]),
    "cp2": (2, ["parallel.context=2"]),
    "dp2 zero3": (2, ["parallel.zero=3", "memory.shard_reference=true"]),
    "tp2 dp2 zero2": (4, ["parallel.tensor=2", "parallel.zero=2", "data.packing=true"]),
    "pp2 dp2 interleaved": (4, ["parallel.pipeline=2", "parallel.schedule=interleaved", "parallel.virtual_stages=2", "parallel.zero=1"]),
}


def pytest_generate_tests(metafunc):
    if "name" in metafunc.fixturenames:
        metafunc.parametrize("name", CASES)
    if "layout" in metafunc.fixturenames:
        metafunc.parametrize("layout", LAYOUTS)


@pytest.fixture(scope="module")
def inputs(folder):
    """A model, another one as its reference, a reward model, another one as the value model, and rollouts."""
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    preference_peers.write_models(folder, "llama", num_hidden_layers=4)
    reward_peers.write_reward_model("llama", folder / "reward", num_hidden_layers=4)
    value = reward_peers.write_reward_model("llama", folder / "value", num_hidden_layers=4)
    with torch.no_grad():
        for parameter in value.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.01)
    value.save_pretrained(folder / "value")
    tiny_models.write_rows(folder / "rollouts.jsonl", peers.rollouts(folder / "reward"))
    tiny_models.write_rows(folder / "groups.jsonl", peers.rollouts(folder / "reward", prompts=4, group=4))
    return folder


def command(folder, output, one, more=()):
    adamw = [f"optimizer.{key}={value}" for key, value in preference_peers.ADAMW.items()]
    reference = [f"reference={folder / 'reference'}"] if one["beta"] else []
    (folder / f"{output}.yaml").write_text("")
    return ["train", folder / f"{output}.yaml", *words_of([
        "device=cpu", "stage=ppo", f"model.path={folder / 'model'}", "model.dtype=fp32", "tuning.kind=full",
        f"rl.rollouts={folder / one['rollouts']}.jsonl", "rl.group=1", f"rl.value_model={folder / 'value'}",
        f"rl.max_new_tokens={peers.LONGEST + 1}", *adamw, f"optimizer.lr={peers.LR}", "optimizer.schedule=constant",
        "optimizer.clip=0", f"run.steps={UPDATES}", f"run.global_batch={peers.BATCH}", "run.micro_batch=1", "save.every=0",
        "data.max_length=64", "data.packing=false", *reference, f"run.output={folder / 'out' / output}", *one["ours"], *more])]


@pytest.fixture(scope="module")
def peer(selected, inputs):
    """All cases in one process, whose TRL is another than this one's."""
    jobs = {name: dict(model=str(inputs / "model"), reference=str(inputs / "reference"), reward=str(inputs / "reward"),
                       value=str(inputs / "value"), rollouts=str(inputs / f"{CASES[name]['rollouts']}.jsonl"),
                       output=str(inputs / "trl"), samplings=CASES[name]["samplings"], arguments=CASES[name]["theirs"])
            for name in selected(test_four_updates, "name")}
    (inputs / "jobs.json").write_text(json.dumps(jobs))
    path = os.pathsep.join([str(TRL), str(pathlib.Path(__file__).parent)])
    found = subprocess.run([sys.executable, "-W", "ignore", peers.__file__, inputs / "jobs.json", inputs / "peer.json"],
                           env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr[-3000:]
    return json.loads((inputs / "peer.json").read_text())


@pytest.fixture(scope="module")
def launched(selected, inputs):
    """One start of the program trains all cases."""
    return run_many(1, [command(inputs, name, CASES[name]) for name in selected(test_four_updates, "name")])


def lines_of(path, result):
    assert path.is_file(), failure_text(result)[-3000:]
    return [json.loads(line) for line in path.read_text().splitlines()]


def largest_difference(found, wanted):
    """Of two lists of numbers for each completion, relative to numbers above 1."""
    assert [len(row) for row in found] == [len(row) for row in wanted]
    return max(abs(a - b) / max(abs(b), 1.0) for mine, theirs in zip(found, wanted) for a, b in zip(mine, theirs))


def relative(found, wanted):
    return abs(found - wanted) / max(abs(wanted), 1e-6)


def test_four_updates(name, inputs, launched, peer, record_errors):
    one, wanted = CASES[name], peer[name]
    log = lines_of(inputs / "out" / name / "log.jsonl", launched)
    completions = lines_of(inputs / "out" / name / "rollouts.jsonl", launched)
    assert len(log) == len(wanted["updates"]) == UPDATES and len(completions) == len(wanted["completions"]) > 0
    errors = {"tokens": max(largest_difference([line[key] for line in completions], [line[key] for line in wanted["completions"]])
                            for key in TOKENS), "loss": 0.0, "norm": 0.0, "metrics": 0.0}
    for mine, theirs in zip(log, wanted["updates"]):
        errors["loss"] = max(errors["loss"], abs(mine["loss"] - theirs["loss"]))
        for key in ("grad_norm", "value/grad_norm"):
            errors["norm"] = max(errors["norm"], relative(mine[key], theirs[key]))
    per_sampling = UPDATES // one["samplings"]
    for number, theirs in enumerate(wanted["samplings"]):
        mine = log[number * per_sampling:(number + 1) * per_sampling]
        for key in METRICS:
            if one["beta"] or key in ("objective/entropy", "objective/scores"):
                errors["metrics"] = max(errors["metrics"], abs(mine[0][key] - theirs[key]) / max(abs(theirs[key]), 1.0))
        for key in AVERAGES:
            mean = sum(line[key] for line in mine) / per_sampling
            errors["metrics"] = max(errors["metrics"], abs(mean - theirs[key]) / max(abs(theirs[key]), 1.0))
    record_errors(errors)
    assert_within(errors, LIMITS)


def test_clips_are_reached(inputs, launched):
    """What is compared above is not always 0."""
    log = lines_of(inputs / "out" / "options" / "log.jsonl", launched)
    assert any(line["policy/clipfrac_avg"] > 0 for line in log) and any(line["val/clipfrac_avg"] > 0 for line in log), log


ONE_RANK = ["run.micro_batch=1", "rl.share_prompt=false"]
LAYOUT_CASE = case(["rl.group=4", "rl.whiten_rewards=true", "rl.kl_target=0.05", "rl.kl_horizon=20", "optimizer.clip=1.0"],
                   rollouts="groups")


@pytest.fixture(scope="module")
def one_rank(inputs):
    result = run_many(1, [command(inputs, "one rank", LAYOUT_CASE, ONE_RANK)])
    return lines_of(inputs / "out" / "one rank" / "log.jsonl", result), lines_of(inputs / "out" / "one rank" / "rollouts.jsonl", result)


@pytest.fixture(scope="module")
def under_layouts(selected, inputs):
    """By number of ranks one start of the program."""
    by_ranks = {}
    for layout in selected(test_layouts, "layout"):
        ranks, settings = LAYOUTS[layout]
        by_ranks.setdefault(ranks, []).append(command(inputs, layout, LAYOUT_CASE, settings))
    return {ranks: run_many(ranks, commands) for ranks, commands in by_ranks.items()}


def test_layouts(layout, inputs, one_rank, under_layouts, record_errors):
    result = under_layouts[LAYOUTS[layout][0]]
    log, completions = (lines_of(inputs / "out" / layout / f"{name}.jsonl", result) for name in ("log", "rollouts"))
    assert len(log) == len(one_rank[0]) == UPDATES and len(completions) == len(one_rank[1])
    errors = {"tokens": max(largest_difference([line[key] for line in completions], [line[key] for line in one_rank[1]])
                            for key in TOKENS), "loss": 0.0, "norm": 0.0, "metrics": 0.0}
    for mine, wanted in zip(log, one_rank[0]):
        errors["loss"] = max(errors["loss"], abs(mine["loss"] - wanted["loss"]))
        for key in ("grad_norm", "value/grad_norm"):
            errors["norm"] = max(errors["norm"], relative(mine[key], wanted[key]))
        for key in (*METRICS, *AVERAGES, "kl_coef"):
            assert (key in mine) == (key in wanted), f"step {mine['step']}: {key}"
            if key in mine:
                errors["metrics"] = max(errors["metrics"], abs(mine[key] - wanted[key]) / max(abs(wanted[key]), 1.0))
    record_errors(errors)
    assert_within(errors, LIMITS)


SAME = ("loss", "grad_norm", "value/grad_norm", "objective/kl", "objective/scores", "loss/value_avg", "kl_coef", "kl")


@pytest.mark.parametrize("stage", ("ppo", "grpo"))
def test_resumed_runs_have_the_same_bits(stage, inputs):
    """With a value model and a KL that is steered; with a reference that follows the policy."""
    follows = ["reference_sync.steps=2", "reference_sync.alpha=0.3", "save.every=2", "run.deterministic=true"]
    policy = ["stage=grpo", "rl.group=4", "rl.beta=0.1", "rl.value_model=\"\""] if stage == "grpo" else ["rl.kl_target=0.05", "rl.kl_horizon=20", "rl.group=4"]
    one = case(rollouts="groups")
    whole = command(inputs, f"{stage} whole", one, [*policy, *follows])
    first = command(inputs, f"{stage} resumed", one, [*policy, *follows, "run.steps=2"])
    second = command(inputs, f"{stage} resumed", one, [*policy, *follows])
    result = run_many(2, [whole, first, second])
    assert result.returncode == 0, failure_text(result)[-3000:]
    wanted, found = (lines_of(inputs / "out" / f"{stage} {kind}" / "log.jsonl", result) for kind in ("whole", "resumed"))
    assert len(wanted) == len(found) == UPDATES
    for mine, theirs in zip(found, wanted):
        assert {key: mine.get(key) for key in SAME} == {key: theirs.get(key) for key in SAME}, f"step {mine['step']}"
    assert (inputs / "out" / f"{stage} resumed" / "checkpoint-4" / "reference" / "manifest.pb").is_file()


def test_the_value_model_is_one_of_transformers(inputs, one_rank):
    """It was trained, and its scores are those of `trireme score`."""
    out = inputs / "out" / "one rank"
    model = peers.CLASSIFIER.from_pretrained(out / "final_value", dtype=torch.float32)
    before = peers.CLASSIFIER.from_pretrained(inputs / "value", dtype=torch.float32)
    ids = [5, 9, 13, 7, 1]
    with torch.no_grad():
        score, old = (one(torch.tensor([ids])).logits[0, 0].item() for one in (model, before))
    (inputs / "scored.jsonl").write_text(json.dumps({"prompt_ids": ids[:3], "completion_ids": ids[3:], "label": True}) + "\n")
    result = start(None, [BUILD / "trireme", "score", "--model", out / "checkpoint-4" / "value_model", "--data", inputs / "scored.jsonl",
                          "--set", "device=cpu", "--set", "model.dtype=fp32"])
    assert result.returncode == 0, failure_text(result)
    assert abs(json.loads(result.stdout.splitlines()[-1])["score"] - score) < 1e-5 < abs(score - old)
