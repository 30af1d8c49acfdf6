"""PPO with a value head on the policy's own layers, on given completions, against the rules of TRL 0.9 and LLaMA-Factory in
plain torch, four updates in fp32: rewards, values, advantages and returns of every token, losses, gradient norms, and the
gradients of every tensor as the final directory shows them. Then layouts: the same as one rank; a run that stops and
resumes: the same bits; starts from the files that it writes."""
import peft
import pytest
import safetensors.torch
import torch
import transformers

import ppo_test as ppo
import preference_peers
import tiny_models
import value_head_peers as peers
from gradients import assert_within
from program import failure_text, run_grads, run_many

LIMITS = {"tokens": 1e-5, "loss": 1e-5, "norm": 1e-4, "gradients": 3e-4}
UPDATES = ppo.UPDATES
LOSSES = ("loss", "loss/policy_avg", "loss/value_avg", "val/clipfrac_avg")


def case(ours=(), theirs=None, family="llama", lora=False, **more):
    return ppo.case(ours, **more) | dict(family=family, lora=lora, options=theirs or {},
                                         epochs=more.get("epochs", 2), parts=more.get("parts", 1))


CASES = {
    "plain": case(),
    "options": case(["rl.gamma=0.97", "rl.lam=0.9", "rl.vf_coef=0.5", "rl.cliprange_value=0.02", "rl.epsilon=0.05",
                     "rl.epsilon_high=0.05", "rl.whiten_rewards=true", "rl.kl_target=0.05", "rl.kl_horizon=20"],
                    dict(gamma=0.97, lam=0.9, vf_coef=0.5, cliprange_value=0.02, cliprange=0.05, whiten_rewards=True,
                         kl_target=0.05, kl_horizon=20.0), beta=0.2),
    "groups packed in parts": case(["rl.group=4", "data.packing=true"], parts=2, rollouts="groups"),
    "adapter": case(lora=True),
    # Its logits are scaled, which values know nothing of, and its head is the embedding.
    "granite": case(family="granite"),
}
LAYOUTS = ppo.LAYOUTS | {"tp2 without sequence": (2, ["parallel.tensor=2", "parallel.sequence=false"])}


def pytest_generate_tests(metafunc):
    if "name" in metafunc.fixturenames:
        metafunc.parametrize("name", CASES)
    if "layout" in metafunc.fixturenames:
        metafunc.parametrize("layout", LAYOUTS)


@pytest.fixture(scope="module")
def inputs(folder):
    """For each family a model, another one as its reference, an adapter, and a value head beside the first and the last."""
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    for family in ("llama", "granite"):
        models = folder / family
        models.mkdir()
        preference_peers.write_models(models, family, num_hidden_layers=4)
        peers.write_adapter(models / "model", models / "adapter")
        for name in ("model", "adapter", "reference"):
            peers.write_head(models / name, tiny_models.COMMON["hidden_size"])
        tiny_models.write_rows(models / "rollouts.jsonl", peers.rollouts())
        tiny_models.write_rows(models / "groups.jsonl", peers.rollouts(prompts=4, group=4))
    return folder


def command(folder, output, one, more=()):
    models = folder / one["family"]
    tuned = ["tuning.kind=lora", f"tuning.adapters={models / 'adapter'}", "reference=base"] if one["lora"] else []
    return ppo.command(models, output, one, ["rl.value_model=policy", "optimizer.name=sgd", "optimizer.weight_decay=0",
                                             f"optimizer.lr={peers.LR}", *tuned, *more])


def output_of(folder, one, output):
    return folder / one["family"] / "out" / output


def read(folder, one, output, result):
    return [ppo.lines_of(output_of(folder, one, output) / f"{name}.jsonl", result) for name in ("log", "rollouts")]


@pytest.fixture(scope="module")
def launched(selected, inputs):
    """One start of the program trains all cases."""
    return run_many(1, [command(inputs, name, CASES[name]) for name in selected(test_four_updates, "name")])


def peer(folder, one):
    models = folder / one["family"]
    lines = ppo.lines_of(models / f"{one['rollouts']}.jsonl", None)
    policy = peers.Policy(models / "model", models / "adapter" if one["lora"] else None)
    reference = None if one["lora"] else peers.Policy(models / "reference")
    return peers.train(policy, reference, lines, one["samplings"], one["epochs"], one["parts"], one["beta"], one["options"])


def final_tensors(final, lora):
    """Of the model or adapter, in whose own file no value head is, and of the head, in its own."""
    own = safetensors.torch.load_file(final / ("adapter_model.safetensors" if lora else "model.safetensors"))
    head = safetensors.torch.load_file(final / "value_head.safetensors")
    assert sorted(head) == sorted(peers.HEAD) and not any("v_head" in name for name in own)
    return own | head


def compare(log, completions, updates, wanted, keys):
    """The largest differences of tokens, losses and gradient norms."""
    assert len(log) == len(updates) == UPDATES and len(completions) == len(wanted) > 0
    return {"tokens": max(ppo.largest_difference([line[key] for line in completions], [line[key] for line in wanted])
                          for key in ppo.TOKENS),
            "loss": max(abs(mine[key] - theirs[key]) / max(abs(theirs[key]), 1.0)
                        for mine, theirs in zip(log, updates) for key in keys),
            "norm": max(ppo.relative(mine["grad_norm"], theirs["grad_norm"]) for mine, theirs in zip(log, updates))}


def test_four_updates(name, inputs, launched, record_errors):
    one = CASES[name]
    wanted = peer(inputs, one)
    log, completions = read(inputs, one, name, launched)
    errors = compare(log, completions, wanted["updates"], wanted["completions"], LOSSES)
    found = final_tensors(output_of(inputs, one, name) / "final", one["lora"])
    before, after = wanted["before"], wanted["after"]
    assert sorted(found) == sorted(before)
    errors["gradients"] = max(((found[key] - after[key]).norm() / (after[key] - before[key]).norm()).item() for key in found)
    record_errors(errors)
    assert_within(errors, LIMITS)
    assert all("value/grad_norm" not in line for line in log)


def test_clips_are_reached(inputs, launched):
    """What is compared above is not always 0."""
    log, _ = read(inputs, CASES["options"], "options", launched)
    assert any(line["policy/clipfrac_avg"] > 0 for line in log) and any(line["val/clipfrac_avg"] > 0 for line in log), log


def test_final_directories_are_loaded_as_ever(inputs, launched):
    """By transformers and PEFT, and checkpoints by other commands of ours, none of which takes notice of the head."""
    base, (whole, tuned) = inputs / "llama" / "model", (output_of(inputs, CASES[name], name) for name in ("plain", "adapter"))
    load = lambda path: peers.CAUSAL.from_pretrained(path, dtype=torch.float32)
    models = load(whole / "final"), peft.PeftModel.from_pretrained(load(base), tuned / "final")
    assert not (whole / "final_value").exists()
    ids = [5, 9, 13, 7]
    tiny_models.write_rows(inputs / "asked.jsonl", [{"input_ids": ids, "labels": ids}])
    asked = ["--rows", inputs / "asked.jsonl", "--set", "device=cpu"]
    found = run_grads(None, [["grads", "--model", whole / "checkpoint-4", "--out", inputs / "whole.safetensors", *asked],
                             ["grads", "--model", base, "--adapters", tuned / "checkpoint-4", "--out", inputs / "tuned.safetensors", *asked]])
    for model, outcome in zip(models, found):
        with torch.no_grad():
            wanted = model(torch.tensor([ids]), labels=torch.tensor([ids])).loss.item()
        assert abs(outcome.line["loss"] - wanted) < LIMITS["loss"], failure_text(outcome.result)[-3000:]


ONE_RANK = ["run.micro_batch=1", "rl.share_prompt=false"]
LAYOUT_CASE = case(["rl.group=4", "rl.whiten_rewards=true", "rl.kl_target=0.05", "rl.kl_horizon=20", "optimizer.clip=1.0"],
                   rollouts="groups")


@pytest.fixture(scope="module")
def one_rank(inputs):
    return read(inputs, LAYOUT_CASE, "one rank", run_many(1, [command(inputs, "one rank", LAYOUT_CASE, ONE_RANK)]))


@pytest.fixture(scope="module")
def under_layouts(selected, inputs):
    """By number of ranks one start of the program."""
    by_ranks = {}
    for layout in selected(test_layouts, "layout"):
        ranks, settings = LAYOUTS[layout]
        by_ranks.setdefault(ranks, []).append(command(inputs, layout, LAYOUT_CASE, settings))
    return {ranks: run_many(ranks, commands) for ranks, commands in by_ranks.items()}


def test_layouts(layout, inputs, one_rank, under_layouts, record_errors):
    log, completions = read(inputs, LAYOUT_CASE, layout, under_layouts[LAYOUTS[layout][0]])
    errors = compare(log, completions, *one_rank, (*LOSSES, "policy/clipfrac_avg"))
    finals = [final_tensors(output_of(inputs, LAYOUT_CASE, name) / "final", False) for name in (layout, "one rank")]
    models = inputs / "llama" / "model"
    before = safetensors.torch.load_file(models / "model.safetensors") | safetensors.torch.load_file(models / "value_head.safetensors")
    errors["gradients"] = max(((finals[0][key] - finals[1][key]).norm() / (finals[1][key] - before[key]).norm()).item()
                              for key in before)
    record_errors(errors)
    assert_within(errors, LIMITS)


SAME = ("loss", "grad_norm", "objective/kl", "loss/value_avg", "kl_coef")


@pytest.mark.parametrize("kind", ("model", "adapter"))
def test_resumed_runs_have_the_same_bits(kind, inputs):
    """With a reference that follows the policy, whose head it does not need; with an adapter."""
    follows = ["reference_sync.steps=2", "reference_sync.alpha=0.3"] if kind == "model" else []
    one = case(["rl.group=4", "rl.kl_target=0.05", "rl.kl_horizon=20", "save.every=2", "run.deterministic=true",
                "parallel.zero=2", *follows], rollouts="groups", lora=kind == "adapter")
    adamw = ["optimizer.name=adamw", "optimizer.lr=1e-3"]
    commands = [command(inputs, f"{kind} {name}", one, [*adamw, *more])
                for name, more in (("whole", []), ("resumed", ["run.steps=2"]), ("resumed", []))]
    result = run_many(2, commands)
    assert result.returncode == 0, failure_text(result)[-3000:]
    (wanted, _), (found, _) = (read(inputs, one, f"{kind} {name}", result) for name in ("whole", "resumed"))
    assert len(wanted) == len(found) == UPDATES
    for mine, theirs in zip(found, wanted):
        assert {key: mine.get(key) for key in SAME} == {key: theirs.get(key) for key in SAME}, f"step {mine['step']}"
    finals = [final_tensors(output_of(inputs, one, f"{kind} {name}") / "final", one["lora"]) for name in ("whole", "resumed")]
    assert all(torch.equal(finals[0][name], finals[1][name]) for name in finals[0])


def test_runs_start_from_what_they_write(inputs, launched):
    """Another run's first values are those of the final head, whether its file or the checkpoint has it."""
    one, out = CASES["plain"], output_of(inputs, CASES["plain"], "plain")
    adapter = output_of(inputs, CASES["adapter"], "adapter")
    starts = {"final": [f"model.path={out / 'final'}"], "checkpoint": [f"model.path={out / 'checkpoint-4'}"],
              "adapter final": [f"tuning.adapters={adapter / 'final'}"],
              "adapter checkpoint": [f"tuning.adapters={adapter / 'checkpoint-4'}"]}
    result = run_many(1, [command(inputs, name, CASES["adapter" if "adapter" in name else "plain"], [*settings, "run.steps=2"])
                          for name, settings in starts.items()])
    assert result.returncode == 0, failure_text(result)[-3000:]
    values = {name: [line["values"] for line in read(inputs, one, name, result)[1]] for name in starts}
    assert values["final"] == values["checkpoint"] and values["adapter final"] == values["adapter checkpoint"]
    assert values["final"] != values["adapter final"]
    policy = peers.Policy(out / "final")
    lines = ppo.lines_of(inputs / "llama" / "rollouts.jsonl", None)[:peers.BATCH]
    with torch.no_grad():
        wanted = [policy(line)[1].tolist() for line in lines]
    assert ppo.largest_difference(values["final"], wanted) < LIMITS["tokens"]
