"""Policy losses under layouts: loss, metrics and every gradient are those of one rank that computes one completion at a
time, each with its prompt, whatever shares prompts, packs, shards or offloads. A set of cases that covers every setting;
--full: every pair of settings, each with every loss. Then identities that need no peer."""
import json
import math
import random

import pytest
from safetensors.torch import load_file

import layouts
import policy_peers as peers
import preference_peers
import tiny_models
from gradients import assert_within, largest_error
from program import Launches, failure_text, run_grads, words_of

OPTIONS = ("full", "device")
LIMITS = {"loss": 1e-5, "metrics": 1e-4, "gradient": 1e-4}
MODELS = ("llama", "qwen3_moe", "deepseek_v3")
LOSSES = {
    "grpo": ["stage=grpo", "rl.beta=0.1", "rl.temperature=0.8"],
    "gspo": ["stage=grpo", "rl.loss=gspo", "rl.beta=0.1"],
    "entropy bonus": ["stage=grpo", "rl.loss=bnpo", "rl.beta=0", "rl.entropy_coef=0.2", "rl.temperature=0.8"],
    "dapo": ["stage=grpo", "rl.loss=dapo", "rl.beta=0", "rl.top_entropy_quantile=0.5"],
    "cispo": ["stage=grpo", "rl.loss=cispo", "rl.epsilon_high=1.1", "rl.beta=0"],
    "luspo": ["stage=grpo", "rl.loss=luspo", "rl.level=sequence", "rl.beta=0.1", "rl.mask_truncated=true"],
    "rloo": ["stage=rloo", "rl.beta=0"],
}
COMMON = ["rl.group=4", "data.max_length=64", "run.global_batch=16"]
ONE_RANK = ["device=cpu", "run.micro_batch=1", "rl.share_prompt=false", "data.packing=false"]
# How completions become rows.
ROWS = (["rl.share_prompt=true", "data.packing=false"], ["rl.share_prompt=true", "data.packing=true"],
        ["rl.share_prompt=false", "data.packing=true"])
MEMORY = ([], ["memory.shard_reference=true"], ["memory.offload_reference=true"])


def cases_of(config):
    device, full = config.getoption("device"), config.getoption("full")
    possible = [case for case in layouts.all_cases() if layouts.ranks(case) <= 4 and case["rows"] == "mixed"
                and case["model"] in MODELS]
    chosen = []
    for model in MODELS:
        mine = [case for case in possible if case["model"] == model and (model == "llama" or not layouts.is_dense(case))]
        chosen += layouts.covering(layouts.thinned(mine), 2 if full else 1)
    if device != "cpu" and not full:
        chosen = chosen[::3]
    losses = list(LOSSES)
    cases = []
    for number, case in enumerate(chosen):
        for loss in losses if full else (losses[number % len(losses)],):
            refers = "rl.beta=0" not in LOSSES[loss]
            cases.append({**case, "loss": loss, "packs": ROWS[number % 3], "memory": MEMORY[number // 2 % 3] if refers else []})
    return cases


def text(case):
    return " ".join([case["loss"], layouts.text(case), *case["packs"], *case["memory"]])


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", cases_of(metafunc.config), ids=text)


def write_rows(folder):
    """The rollouts with advantages, of both signs and 0, and log-probabilities of an older policy."""
    generator = random.Random(3)
    model = folder / "for-old"
    tiny_models.write_model(tiny_models.config_of("llama", num_hidden_layers=2), model)
    lines = [{"prompt_ids": line["prompt_ids"], "completion_ids": line["completion_ids"],
              "advantage": 0.0 if number == 5 else generator.gauss(0, 1), "group": line["group"], "step": 1,
              "truncated": line["completion_ids"][-1] != peers.END}
             for number, line in enumerate(peers.rollouts())]
    tiny_models.write_rows(folder / "once.jsonl", lines)
    old = peers.with_log_probs([dict(line) for line in lines], model)
    for line in old:
        line["old_logprobs"] = line.pop("logprobs")
    tiny_models.write_rows(folder / "rows.jsonl", old)


def command(folder, models, loss, settings, out, rows="rows"):
    reference = [] if "rl.beta=0" in LOSSES[loss] else [f"reference={models / 'reference'}"]
    return ["grads", "--model", models / "model", "--rows", folder / f"{rows}.jsonl", "--out", folder / out,
            *words_of([*COMMON, *reference, *LOSSES[loss], *settings])]


@pytest.fixture(scope="module")
def plain(selected, folder):
    """What one rank gives, by model, layers and loss."""
    write_rows(folder)
    kinds = dict.fromkeys((case["model"], layouts.layers(case), case["loss"]) for case in selected(test_layouts))
    commands = [command(folder, preference_peers.model_folder(folder, model, layers), loss, ONE_RANK, f"one-{model}-{layers}-{loss}")
                for model, layers, loss in kinds]
    return dict(zip(kinds, run_grads(1, commands)))


@pytest.fixture(scope="module")
def launches(selected, plain, folder, device):
    cases = selected(test_layouts)

    def launch(ranks, mine):
        return run_grads(ranks, [command(
            folder, preference_peers.model_folder(folder, case["model"], layouts.layers(case)), case["loss"],
            [f"device={device}", *layouts.settings(case), *case["packs"], *case["memory"], COMMON[-1]], f"{ranks}-{number}")
            for number, case in enumerate(mine)])

    return Launches(cases, layouts.ranks, launch)


def metric_error(found, wanted):
    names = wanted.keys() - {"experts", "grad_norm"}
    assert found.keys() - {"experts"} == wanted.keys() - {"experts"}, sorted(found.keys() ^ wanted.keys())
    return max(abs(found[name] - wanted[name]) / max(1, abs(wanted[name])) for name in names)


def test_layouts(case, plain, launches, record_errors):
    one, found = plain[case["model"], layouts.layers(case), case["loss"]], launches.of(case)
    assert one.line is not None, failure_text(one.result)[-2500:]
    assert found.line is not None, failure_text(found.result)[-2500:]
    gradients, wanted = load_file(found.out), load_file(one.out)
    assert gradients.keys() == wanted.keys(), f"names differ: {sorted(gradients.keys() ^ wanted.keys())[:4]}"
    errors = {"loss": abs(found.line["loss"] - one.line["loss"]) / max(1, abs(one.line["loss"])), "metrics": metric_error(found.line, one.line),
              "gradient": largest_error(gradients, wanted)}
    record_errors(errors)
    assert_within(errors, LIMITS)


def test_launches_exit_with_0(launches):
    assert launches.left
    for ranks, left in launches.left.items():
        assert left[0].result.returncode == 0, f"{ranks} ranks: {failure_text(left[0].result)[-2500:]}"


@pytest.fixture(scope="module")
def identities(folder, device):
    """Outcomes of one launch, by name: without old log-probabilities every ratio is 1."""
    write_rows(folder)
    models = preference_peers.model_folder(folder, "llama", 5)
    on = [f"device={device}", "reference=base"]
    commands = {loss: command(folder, models, loss, [*on, "rl.beta=0"], f"id-{loss}", rows="once")
                for loss in ("grpo", "gspo", "rloo")}
    commands["wide"] = command(folder, models, "grpo", [*on, "rl.beta=0", "rl.temperature=1", "rl.epsilon=0",
                                                       "rl.epsilon_high=0"], "id-wide", rows="once")
    return dict(zip(commands, run_grads(1, list(commands.values()))))


def test_ratios_of_the_policy_to_itself_are_not_clipped(identities):
    for name, outcome in identities.items():
        assert outcome.line is not None, failure_text(outcome.result)[-2500:]
        assert outcome.line["clip_ratio/region_mean"] == 0, (name, outcome.line)


def test_means_of_ratios_of_1_are_minus_the_mean_advantage(identities, folder):
    advantages = [json.loads(line)["advantage"] for line in (folder / "once.jsonl").read_text().splitlines()]
    for name in ("grpo", "gspo", "rloo"):
        assert math.isclose(identities[name].line["loss"], -sum(advantages) / len(advantages), rel_tol=1e-5), name


def test_at_a_ratio_of_1_sequences_give_the_gradient_of_tokens(identities):
    """The gradient of a geometric mean is the mean of the tokens' gradients; bounds of no width contain a ratio of 1."""
    assert largest_error(load_file(identities["gspo"].out), load_file(identities["wide"].out)) <= LIMITS["gradient"]
