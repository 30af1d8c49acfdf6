"""Policy training on given completions against TRL, four updates in fp32: advantages, loss, gradient norm, KL, clip ratios
and entropy of every loss, ratio and scale of rewards, and of every option. --full: all of their combinations."""
import json

import pytest
import torch
import transformers

import policy_peers as peers
import preference_peers
import tiny_models
from gradients import assert_within
from program import failure_text, run_many, words_of

OPTIONS = ("full",)
LIMITS = {"advantage": 1e-6, "loss": 1e-5, "norm": 1e-4, "metrics": 2e-5}
LOSSES = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo")
LEVELS, SCALES = ("token", "sequence"), ("group", "batch", "none")
BOUNDS = {"cispo": (["rl.epsilon_high=1.1"], dict(epsilon_high=1.1)),
          "sapo": (["rl.sapo_temperature_pos=1.3", "rl.sapo_temperature_neg=0.8"], dict(sapo_temperature_pos=1.3, sapo_temperature_neg=0.8))}
TWICE = (["rl.iterations=2"], dict(num_iterations=2))


def case(*parts, stage="grpo", beta=0.0, **more):
    """Our settings and TRL's, of several parts."""
    ours, theirs = [f"rl.beta={beta}"], dict(beta=beta)
    for settings, arguments in (TWICE, *parts):
        ours, theirs = ours + settings, theirs | arguments
    return dict(stage=stage, ours=ours, theirs=theirs, **more)


def combination(loss, level, scale):
    return case((["rl.epsilon=0.1", "rl.epsilon_high=0.15"], dict(epsilon=0.1, epsilon_high=0.15)),
                ([f"rl.loss={loss}", f"rl.level={level}", f"rl.scale_rewards={scale}"],
                 dict(loss_type=loss, importance_sampling_level=level, scale_rewards=scale)), BOUNDS.get(loss, ([], {})))


ALL = {f"{loss} {level} {scale}": combination(loss, level, scale)
       for loss in LOSSES for level in LEVELS for scale in SCALES}
# Each loss and level, the scale by turns.
COVERING = [f"{loss} {level} {SCALES[(number + turn) % 3]}" for number, loss in enumerate(LOSSES)
            for turn, level in enumerate(LEVELS)]
CASES = {
    "gspo": case((["rl.loss=gspo"], dict(loss_type="grpo", importance_sampling_level="sequence"))),
    "kl": case((["rl.bias_correction_kl=false"], dict(loss_type="grpo", use_bias_correction_kl=False)), beta=0.1),
    "kl corrected": case(([], dict(loss_type="grpo")), beta=0.1),
    "kl corrected, sequence": case((["rl.level=sequence"], dict(loss_type="grpo", importance_sampling_level="sequence")),
                                   beta=0.1),
    "delta": case((["rl.delta=1.3", "rl.epsilon=0.05"], dict(loss_type="grpo", delta=1.3, epsilon=0.05, epsilon_high=0.2))),
    "two rewards": case((["rl.rewards=[first,second]", "rl.reward_weights=[0.7,0.2]"],
                         dict(loss_type="grpo", reward_weights=[0.7, 0.2])), rewards=("first", "second")),
    "two rewards, batch": case((["rl.rewards=[first,second]", "rl.scale_rewards=batch"],
                                dict(loss_type="grpo", scale_rewards="batch")), rewards=("first", "second")),
    "truncated masked": case((["rl.mask_truncated=true"], dict(loss_type="grpo", mask_truncated_completions=True)), beta=0.1),
    "truncated masked, dapo": case((["rl.mask_truncated=true", "rl.loss=dapo"],
                                    dict(loss_type="dapo", mask_truncated_completions=True))),
    "entropy quantile": case((["rl.top_entropy_quantile=0.4"], dict(loss_type="grpo", top_entropy_quantile=0.4)), beta=0.1),
    "entropy bonus": case((["rl.entropy_coef=0.3", "rl.temperature=0.8"], dict(loss_type="grpo", entropy_coef=0.3, temperature=0.8)), beta=0.1),
    "temperature": case((["rl.temperature=0.8"], dict(loss_type="grpo", temperature=0.8)), beta=0.1),
    "once": case((["rl.iterations=1"], dict(loss_type="grpo", num_iterations=1)), beta=0.1),
    "steps per generation": case((["rl.steps_per_generation=2", "rl.loss=dapo"],
                                  dict(loss_type="dapo", steps_per_generation=2)), beta=0.1),
    "environment": case(([], dict(loss_type="grpo")), beta=0.1, rollouts="masked"),
    "environment, dapo, sampler": case((["rl.loss=dapo", "rl.sampler_correction=sequence_truncate"],
                                        dict(loss_type="dapo", vllm_importance_sampling_mode="sequence_truncate")),
                                       corrected=True, rollouts="masked"),
    "reference follows": case((["rl.iterations=1", "reference_sync.steps=2", "reference_sync.alpha=0.6"],
                               dict(loss_type="grpo", num_iterations=1, sync_ref_model=True, ref_model_sync_steps=2,
                                    ref_model_mixup_alpha=0.6)), beta=0.1),
    "packed": case((["data.packing=true", "rl.loss=dapo"], dict(loss_type="dapo")), beta=0.1),
    "unshared": case((["rl.share_prompt=false"], dict(loss_type="grpo")), beta=0.1),
}
CASES |= {f"sampler {mode}": case(([f"rl.sampler_correction={mode}", "rl.sampler_clip_max=1.4", "rl.sampler_clip_min=0.6"],
                                   dict(loss_type="grpo", vllm_importance_sampling_mode=mode,
                                        vllm_importance_sampling_clip_max=1.4, vllm_importance_sampling_clip_min=0.6)),
                                  corrected=True)
          for mode in ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask")}
CASES |= {
    "rloo": case(([], dict(num_iterations=2)), stage="rloo", beta=0.1),
    "rloo without kl": case((["rl.epsilon=0.05", "rl.epsilon_high=0.05"], dict(epsilon=0.05)), stage="rloo"),
}
# Its advantages are given to TRL as rewards, whose means by group are 0.
CASES["reinforce_plus_plus"] = case(([], dict(loss_type="grpo", scale_rewards="none")), stage="reinforce_plus_plus")
OTHERWISE = {"rloo": "zero_std", "reinforce_plus_plus": "reward"}  # stage: metrics that are not the peer's
METRICS = ("reward", "reward_std", "frac_reward_zero_std", "rewards/first/mean", "rewards/first/std", "rewards/second/mean",
           "kl", "entropy", "clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean", "cispo_clip_ratio",
           "completions/mean_length", "completions/clipped_ratio", "completions/mean_terminated_length",
           "sampling/sampling_logp_difference/mean", "sampling/sampling_logp_difference/max",
           "sampling/importance_sampling_ratio/mean")


def pytest_generate_tests(metafunc):
    if "name" in metafunc.fixturenames:
        chosen = ALL if metafunc.config.getoption("full") else COVERING
        metafunc.parametrize("name", [*chosen, *CASES])


def named(name):
    return CASES.get(name) or ALL[name]


@pytest.fixture(scope="module")
def inputs(folder):
    """A model, another one as its reference, and rollouts."""
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    preference_peers.write_models(folder, "llama", num_hidden_layers=2)
    lines = peers.with_log_probs(peers.rollouts(), folder / "model")
    tiny_models.write_rows(folder / "rollouts.jsonl", lines)
    tiny_models.write_rows(folder / "masked.jsonl", peers.with_environment(lines))
    return folder


def command(folder, name):
    adamw = [f"optimizer.{key}={value}" for key, value in preference_peers.ADAMW.items()]
    one = named(name)
    reference = [] if "rl.beta=0.0" in one["ours"] else [f"reference={folder / 'reference'}"]
    rewards = [] if any("rl.rewards" in setting for setting in one["ours"]) else ["rl.rewards=[first]"]
    (folder / f"{name}.yaml").write_text("")
    return ["train", folder / f"{name}.yaml", *words_of([
        "device=cpu", f"stage={one['stage']}", f"model.path={folder / 'model'}", "model.dtype=fp32", "tuning.kind=full",
        f"rl.rollouts={folder / one.get('rollouts', 'rollouts')}.jsonl", f"rl.group={peers.GROUP}", f"rl.max_new_tokens={peers.LONGEST}", *adamw,
        f"optimizer.lr={peers.LR}", "optimizer.schedule=constant", "optimizer.clip=0", f"run.steps={peers.STEPS}",
        f"run.global_batch={peers.BATCH}", "save.every=0", "data.max_length=64", "data.packing=false", *reference,
        f"run.output={folder / 'out' / name}", *rewards, *one["ours"]])]


@pytest.fixture(scope="module")
def launched(selected, inputs):
    """One start of the program trains all cases."""
    return run_many(1, [command(inputs, name) for name in selected(test_four_updates, "name")])


def lines_of(path, result):
    assert path.is_file(), failure_text(result)[-1500:]
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_launch_exits_with_0(launched):
    assert launched.returncode == 0, failure_text(launched)[-1500:]


def relative(found, wanted):
    return abs(found - wanted) / max(abs(wanted), 1e-6)  # 0 where every ratio is clipped


def test_four_updates(name, inputs, launched, record_errors):
    one, out = named(name), inputs / "out" / name
    found = lines_of(out / "log.jsonl", launched)
    lines = [json.loads(line) for line in (inputs / f"{one.get('rollouts', 'rollouts')}.jsonl").read_text().splitlines()]
    own_rule = one["stage"] == "reinforce_plus_plus"
    lines = peers.with_scaled_rewards(lines) if own_rule else lines
    wanted, advantages = peers.train("grpo" if own_rule else one["stage"], inputs / "model", inputs / "reference", lines, inputs / "trl",
                                     rewards=one.get("rewards", ("first",)), corrected=one.get("corrected", False),
                                     **one["theirs"])
    assert len(found) == len(wanted) == peers.STEPS
    ours = [line["advantage"] for line in lines_of(out / "rollouts.jsonl", launched)]
    assert len(ours) == len(advantages) > 0
    errors = {"advantage": max(abs(a - b) for a, b in zip(ours, advantages)), "loss": 0.0, "norm": 0.0, "metrics": 0.0}
    for mine, theirs in zip(found, wanted):
        errors["loss"] = max(errors["loss"], abs(mine["loss"] - theirs["loss"]))
        errors["norm"] = max(errors["norm"], relative(mine["grad_norm"], theirs["grad_norm"]))
        for metric in METRICS:
            if OTHERWISE.get(one["stage"], "nothing") in metric:
                continue
            assert metric in mine or metric not in theirs, f"step {mine['step']}: {metric} is missing"
            if metric in mine and metric in theirs:
                error = abs(mine[metric] - theirs[metric]) / max(abs(theirs[metric]), 1.0)
                errors["metrics"] = max(errors["metrics"], error)
    record_errors(errors)
    # Where the KL is part of the reward, sums of fp32 log-probabilities are part of advantages.
    assert_within(errors, LIMITS | ({"advantage": 1e-5} if one["stage"] == "rloo" else {}))


def test_ratios_leave_the_bounds(inputs, launched):
    """What is compared above is not always 0."""
    log = lines_of(inputs / "out" / COVERING[0] / "log.jsonl", launched)
    assert any(line["clip_ratio/low_mean"] > 0 for line in log) and any(line["clip_ratio/high_mean"] > 0 for line in log), log
