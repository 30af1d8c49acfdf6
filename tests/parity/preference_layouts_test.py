"""Preference training under layouts: loss, metrics and every gradient are those of one rank that computes one pair at a
time and each prompt twice, whatever shares prompts, shards, offloads or replaces the reference. A set of cases that covers
every setting; --full: every pair of settings, each with every stage. Then identities that need no peer."""
import json
import math

import pytest
from safetensors.torch import load_file

import layouts
import preference_peers as peers
import tiny_models
from gradients import assert_within, largest_error, relative
from program import Launches, failure_text, run_grads, words_of

OPTIONS = ("full", "device")
LIMITS = {"loss": 1e-5, "metrics": 1e-4, "gradient": 1e-4}
MODELS = ("llama", "qwen3_moe", "deepseek_v3")
STAGES = {"dpo": ["preference.loss=[sigmoid,aot,aot_unpaired,sft]", "preference.ld_alpha=0.5"], "kto": [], "orpo": [],
          "simpo": [], "cpo": []}
# How a second model serves as the reference. Without one the first is meant.
REFERENCES = ([], ["memory.shard_reference=true"], ["memory.offload_reference=true"],
              ["preference.precompute_ref_log_probs=true"])
MICRO_BATCHES = {1: 1, 2: 4}  # pairs, or answers, in place of the layouts' rows
ONE_RANK = ["device=cpu", "run.micro_batch=1", "preference.share_prompt=false"]
METRICS = ("rewards/chosen", "rewards/rejected", "rewards/accuracies", "rewards/margins", "logps/chosen", "logps/rejected",
           "logits/chosen", "logits/rejected", "kl", "nll_loss", "log_odds_ratio", "log_odds_chosen")


def reference_settings(stage, number):
    return REFERENCES[number % len(REFERENCES)] if stage in ("dpo", "kto") else []


def cases_of(config):
    """Layout, stage, whether the prompt is shared, how the reference is kept. Stages and the rest by turns, so that a
    value of the layouts meets some of them; all stages with --full."""
    device, full = config.getoption("device"), config.getoption("full")
    possible = [case for case in layouts.all_cases() if layouts.ranks(case) <= 4 and case["rows"] == "mixed"
                and case["model"] in MODELS]
    chosen = []
    for model in MODELS:
        mine = [case for case in possible if case["model"] == model and (model == "llama" or not layouts.is_dense(case))]
        strength = 2 if full else 1
        chosen += layouts.covering(layouts.thinned(mine), strength)
    if device != "cpu" and not full:
        chosen = chosen[::3]
    stages = list(STAGES)
    cases = []
    for number, case in enumerate(chosen):
        for stage in stages if full else (stages[number % 5], stages[(number + 2) % 5]):
            cases.append({**case, "stage": stage, "micro_batch": MICRO_BATCHES[case["micro_batch"]],
                          "share_prompt": "false" if number % 4 == 3 else "true",
                          "reference": reference_settings(stage, number)})
    return cases


def text(case):
    words = [case["stage"], layouts.text(case), "" if case["share_prompt"] == "true" else "unshared", *case["reference"]]
    return " ".join(" ".join(words).split())


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", cases_of(metafunc.config), ids=text)


def command(folder, models, stage, settings, out):
    return ["grads", "--model", models / "model", "--rows", peers.rows_of(folder, stage), "--out", folder / out,
            *words_of([f"stage={stage}", f"data.cache={folder / 'cache'}", *peers.reference_of(models, stage),
                       *STAGES[stage], *settings])]


@pytest.fixture(scope="module")
def plain(selected, folder):
    """What one rank gives, by model, layers and stage."""
    peers.write_answers(folder)
    kinds = dict.fromkeys((case["model"], layouts.layers(case), case["stage"]) for case in selected(test_layouts))
    commands = [command(folder, peers.model_folder(folder, model, layers), stage, ONE_RANK, f"one-{model}-{layers}-{stage}")
                for model, layers, stage in kinds]
    return dict(zip(kinds, run_grads(1, commands)))


@pytest.fixture(scope="module")
def launches(selected, plain, folder, device):
    cases = selected(test_layouts)

    def launch(ranks, mine):
        return run_grads(ranks, [command(
            folder, peers.model_folder(folder, case["model"], layouts.layers(case)), case["stage"],
            [f"device={device}", *layouts.settings(case), f"preference.share_prompt={case['share_prompt']}",
             *case["reference"]], f"{ranks}-{number}") for number, case in enumerate(mine)])

    return Launches(cases, layouts.ranks, launch)


def metric_error(found, wanted):
    assert found.keys() == wanted.keys(), f"metrics differ: {sorted(found.keys() ^ wanted.keys())}"
    return max(abs(found[name] - wanted[name]) / max(1, abs(wanted[name])) for name in METRICS if name in wanted)


def test_layouts(case, plain, launches, record_errors):
    one, found = plain[case["model"], layouts.layers(case), case["stage"]], launches.of(case)
    assert one.line is not None, failure_text(one.result)[-2500:]
    assert found.line is not None, failure_text(found.result)[-2500:]
    gradients, wanted = load_file(found.out), load_file(one.out)
    assert gradients.keys() == wanted.keys(), f"names differ: {sorted(gradients.keys() ^ wanted.keys())[:4]}"
    errors = {"loss": relative(found.line["loss"], one.line["loss"]),
              "metrics": metric_error({name: value for name, value in found.line.items() if name != "experts"},
                                      {name: value for name, value in one.line.items() if name != "experts"}),
              "gradient": largest_error(gradients, wanted)}
    record_errors(errors)
    assert_within(errors, LIMITS)


def test_launches_exit_with_0(launches):
    assert launches.left
    for ranks, left in launches.left.items():
        assert left[0].result.returncode == 0, f"{ranks} ranks: {failure_text(left[0].result)[-2500:]}"


# Where policy and reference agree, every log-ratio is 0: the loss is a constant of its formula (beta 0.1, smoothing 0.1).
LN2 = math.log(2)
CONSTANTS = {"sigmoid": LN2, "robust": LN2, "hinge": 1, "ipo": 25, "nca_pair": 2 * LN2, "bco_pair": 2 * LN2, "sppo_hard": 50,
             "apo_zero": 1, "apo_down": 1, "discopop": LN2 / 2 + 0.5, "aot": LN2, "aot_unpaired": LN2, "sigmoid_norm": LN2,
             "exo_pair": (-2 * LN2 - math.log(0.9) - math.log(0.1)) / 2}


@pytest.fixture(scope="module")
def identities(folder, device):
    """Lines of one launch, by name."""
    peers.write_answers(folder)
    models, pairs = peers.model_folder(folder, "llama", 5), peers.answers()
    tiny_models.write_rows(folder / "swapped.jsonl", [{**pair, "chosen_ids": pair["rejected_ids"],
                                                       "rejected_ids": pair["chosen_ids"]} for pair in pairs])
    tiny_models.write_rows(folder / "permuted.jsonl", pairs[::-1])
    base, other = ["reference=base", "preference.label_smoothing=0.1"], [f"reference={models / 'reference'}"]
    commands = {loss: ("dpo", "pairs", [*base, f"preference.loss=[{loss}]"]) for loss in CONSTANTS}
    commands["kto"] = ("kto", "labelled", base[:1])
    commands |= {rows: ("dpo", rows, other) for rows in ("pairs", "swapped", "permuted")}
    commands["none"] = ("dpo", "pairs", ["reference=none"])
    outcomes = run_grads(1, [["grads", "--model", models / "model", "--rows", folder / f"{rows}.jsonl", "--out",
                              folder / f"identity-{name}", *words_of([f"device={device}", f"stage={stage}", *settings])]
                             for name, (stage, rows, settings) in commands.items()])
    return dict(zip(commands, outcomes))


@pytest.mark.parametrize("loss", CONSTANTS)
def test_loss_where_policy_and_reference_agree(loss, identities):
    outcome = identities[loss]
    assert outcome.line is not None, failure_text(outcome.result)[-2500:]
    assert math.isclose(outcome.line["loss"], CONSTANTS[loss], rel_tol=1e-5), outcome.line
    assert outcome.line["rewards/accuracies"] == 0 and abs(outcome.line["rewards/margins"]) < 1e-4, outcome.line


def test_kto_is_a_half_where_policy_and_reference_agree(identities):
    line = identities["kto"].line
    assert math.isclose(line["loss"], 0.5, rel_tol=1e-5) and abs(line["kl"]) < 1e-4, line


def test_swapped_sides_turn_margins_around(identities):
    line, swapped = identities["pairs"].line, identities["swapped"].line
    assert math.isclose(line["rewards/margins"], -swapped["rewards/margins"], rel_tol=1e-4), (line, swapped)
    for name in ("rewards", "logps", "logits"):
        assert math.isclose(line[f"{name}/chosen"], swapped[f"{name}/rejected"], rel_tol=1e-4), (name, line, swapped)


def test_the_order_of_pairs_does_not_matter(identities):
    found, wanted = identities["permuted"], identities["pairs"]
    assert relative(found.line["loss"], wanted.line["loss"]) <= LIMITS["loss"]
    assert largest_error(load_file(found.out), load_file(wanted.out)) <= LIMITS["gradient"]


def test_without_a_reference_rewards_are_log_probs(identities):
    line = identities["none"].line
    assert math.isclose(line["rewards/chosen"], 0.1 * line["logps/chosen"], rel_tol=1e-5), json.dumps(line)
