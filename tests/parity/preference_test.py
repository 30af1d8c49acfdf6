"""Preference training against TRL, ten steps in fp32: loss, gradient norm, rewards/*, logps/*, logits/* of every step, and
every gradient of the first; every loss and divergence, and every reference with LoRA."""
import json
import math

import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file

import preference_peers as peers
import tiny_models
from gradients import assert_within
from program import failure_text, run_many, words_of

LIMITS = {"loss": 2e-5, "norm": 1e-4, "rewards": 2e-5, "logps": 3e-5, "logits": 3e-5, "gradient": 1e-4}
# These two take an exponential of a log-ratio, or of one over a temperature of 0.05: the last digits of fp32 sums of
# log-probabilities, of the peer's as of ours, show in them.
STEEP, STEEPNESS = {"dpo forward_kl", "dpo discopop", "dpo discopop tau"}, 5

# name: stage, our settings, TRL's
CASES = {f"dpo {loss}": ("dpo", [f"preference.loss=[{loss}]"], dict(loss_type=[loss]))
         for loss in ("sigmoid", "hinge", "ipo", "nca_pair", "bco_pair", "sppo_hard", "aot", "aot_unpaired", "apo_zero",
                      "apo_down", "discopop", "sft", "sigmoid_norm")}
CASES |= {f"dpo {loss} smoothed": ("dpo", [f"preference.loss=[{loss}]", "preference.label_smoothing=0.1"],
                                   dict(loss_type=[loss], label_smoothing=0.1)) for loss in ("robust", "exo_pair", "aot")}
CASES |= {f"dpo {divergence}": ("dpo", [f"preference.divergence={divergence}"], dict(f_divergence_type=divergence))
          for divergence in ("forward_kl", "js_divergence", "alpha_divergence")}
# With a smaller beta no loss comes near 0, where all digits of 1 - margin are lost.
CASES["dpo hinge"] = ("dpo", ["preference.loss=[hinge]", "preference.beta=0.05"], dict(loss_type=["hinge"], beta=0.05))
CASES |= {
    "cdpo": ("dpo", ["preference.label_smoothing=0.1"],
             dict(loss_type=["sigmoid", "robust"], loss_weights=[1.8, -0.8], label_smoothing=0.1)),
    "dpo mixed": ("dpo", ["preference.loss=[sigmoid,bco_pair,sft]", "preference.weights=[0.8,0.2,1.0]"],
                  dict(loss_type=["sigmoid", "bco_pair", "sft"], loss_weights=[0.8, 0.2, 1.0])),
    "dpo discopop tau": ("dpo", ["preference.loss=[discopop]", "preference.discopop_tau=0.2"],
                         dict(loss_type=["discopop"], discopop_tau=0.2)),
    "rpo": ("dpo", ["preference.sft_weight=0.5"], dict(loss_type=["sigmoid", "sft"], loss_weights=[1.0, 0.5])),
    "ld-dpo": ("dpo", ["preference.ld_alpha=0.3", "preference.beta=0.4"], dict(ld_alpha=0.3, beta=0.4)),
    "ld-dpo with sft": ("dpo", ["preference.ld_alpha=0.0", "preference.sft_weight=0.5"],
                        dict(ld_alpha=0.0, loss_type=["sigmoid", "sft"], loss_weights=[1.0, 0.5])),
    "dpo reference follows": ("dpo", ["reference_sync.steps=2", "reference_sync.alpha=0.7"],
                              dict(sync_ref_model=True, ref_model_sync_steps=2, ref_model_mixup_alpha=0.7)),
    "kto": ("kto", [], {}),
    "kto weights": ("kto", ["preference.desirable_weight=0.7", "preference.undesirable_weight=1.5", "preference.beta=0.3"],
                    dict(desirable_weight=0.7, undesirable_weight=1.5, beta=0.3)),
    "kto precomputed": ("kto", ["preference.precompute_ref_log_probs=true"], dict(precompute_ref_log_probs=True)),
    "kto apo_zero_unpaired": ("kto", ["preference.loss=[apo_zero_unpaired]"], dict(loss_type="apo_zero_unpaired")),
    "orpo": ("orpo", [], {}),
    "cpo": ("cpo", [], {}),
    "cpo hinge": ("cpo", ["preference.loss=[hinge]", "preference.cpo_alpha=0.2"], dict(loss_type="hinge", cpo_alpha=0.2)),
    "cpo ipo": ("cpo", ["preference.loss=[ipo]"], dict(loss_type="ipo")),
    "simpo": ("simpo", ["preference.cpo_alpha=0", "preference.beta=2.0", "preference.simpo_gamma=1.0"],
              dict(loss_type="simpo", cpo_alpha=0.0, beta=2.0, simpo_gamma=1.0)),
    "cpo-simpo": ("simpo", ["preference.label_smoothing=0.1"], dict(loss_type="simpo", label_smoothing=0.1)),
}
NAMES = ("rewards/chosen", "rewards/rejected", "rewards/accuracies", "rewards/margins", "logps/chosen", "logps/rejected",
         "kl", "nll_loss", "log_odds_ratio", "log_odds_chosen")
# Over the answers' tokens; TRL's orpo and cpo average over prompts and padding, too.
LOGITS = ("logits/chosen", "logits/rejected")
REFERENCES = ("base", "start", "other")


@pytest.fixture(scope="module")
def inputs(folder):
    """A model, another one as its reference, and pairs and labelled answers; the first four of them too."""
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    peers.write_models(folder, "llama")
    peers.write_answers(folder)
    return folder


def run_settings(folder, name, stage, ours, tuning=("tuning.kind=full",)):
    adamw = [f"optimizer.{key}={value}" for key, value in peers.ADAMW.items()]
    return ["device=cpu", f"stage={stage}", f"model.path={folder / 'model'}", "model.dtype=fp32",
            f"data.train=[{peers.rows_of(folder, stage)}]", "data.shuffle=false", "data.packing=false", "data.max_length=64",
            f"data.cache={folder / 'cache'}", *adamw, f"optimizer.lr={peers.LR}", "optimizer.schedule=constant",
            "optimizer.clip=0", f"run.steps={peers.STEPS}", f"run.global_batch={peers.BATCH}", "run.micro_batch=1",
            "save.every=0", f"run.output={folder / 'out' / name}", *peers.reference_of(folder, stage), *tuning, *ours]


def train_command(folder, name, settings):
    (folder / f"{name}.yaml").write_text("")
    return ["train", folder / f"{name}.yaml", *words_of(settings)]


def log_of(folder, name, result):
    path = folder / "out" / name / "log.jsonl"
    assert path.is_file(), failure_text(result)[-1500:]
    return [json.loads(line) for line in path.read_text().splitlines()]


def relative(found, wanted):
    return abs(found - wanted) / max(abs(wanted), 1e-6)


def compare_logs(found, wanted, names):
    """The worst of each kind over all steps."""
    assert len(found) == len(wanted), f"{len(found)} steps instead of {len(wanted)}"
    worst = dict.fromkeys(("loss", "norm", "rewards", "logps", "logits"), 0.0)
    for ours, theirs in zip(found, wanted):
        worst["loss"] = max(worst["loss"], relative(ours["loss"], theirs["loss"]))
        worst["norm"] = max(worst["norm"], relative(ours["grad_norm"], theirs["grad_norm"]))
        for name in names:
            if name != "nll_loss":
                assert (name in ours) == (name in theirs), f"step {ours['step']}: {name} is in one of the logs only"
            if name in ours and name in theirs:
                kind = name.split("/")[0] if name.startswith(("logps", "logits")) else "rewards"
                worst[kind] = max(worst[kind], abs(ours[name] - theirs[name]) / max(abs(theirs[name]), 1.0))
    return worst


def gradient_error(found, wanted):
    assert found.keys() == wanted.keys(), f"names differ: {sorted(found.keys() ^ wanted.keys())[:4]}"
    return max(((found[name] - wanted[name]).abs().max() / wanted[name].abs().max().clamp_min(1e-12)).item()
               for name in wanted)


@pytest.fixture(scope="module")
def launched(selected, inputs):
    """One start of the program trains all cases, and gives the gradients of their first batches."""
    commands = []
    for name in selected(test_ten_steps, "name"):
        stage, ours, _ = CASES[name]
        commands.append(train_command(inputs, name, run_settings(inputs, name, stage, ours)))
        commands.append(["grads", "--model", inputs / "model", "--rows", peers.rows_of(inputs, stage, "-4"), "--out",
                         inputs / f"{name}.safetensors",
                         *words_of(["device=cpu", f"stage={stage}", *peers.reference_of(inputs, stage), *ours])])
    return run_many(1, commands)


@pytest.mark.parametrize("name", CASES)
def test_ten_steps(name, inputs, launched, record_errors):
    stage, _, theirs = CASES[name]
    rows = peers.labelled(peers.answers()) if stage == "kto" else peers.answers()
    log, gradients = peers.train(stage, inputs / "model", inputs / "reference", rows, inputs / "trl", **theirs)
    names = NAMES + (LOGITS if stage in ("dpo", "kto") else ())
    errors = compare_logs(log_of(inputs, name, launched), log, names)
    errors["gradient"] = gradient_error(load_file(inputs / f"{name}.safetensors"), gradients)
    record_errors(errors)
    assert_within(errors, {kind: limit * (STEEPNESS if name in STEEP else 1) for kind, limit in LIMITS.items()})


def test_the_launch_exits_with_0(launched):
    assert launched.returncode == 0, failure_text(launched)[-1500:]


def adapter_of(folder, path):
    """An adapter whose pairs both matter, and the model with it."""
    base = transformers.AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32)
    tuned = peft.get_peft_model(base, peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"]))
    torch.manual_seed(3)
    with torch.no_grad():
        for name, parameter in tuned.named_parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn_like(parameter) * 0.05)
    tuned.save_pretrained(path)
    return tuned


@pytest.fixture(scope="module")
def adapters(inputs):
    """A run with each reference, all in one launch; the model that TRL starts from, and its own reference."""
    starts, commands = {}, []
    for reference in REFERENCES:
        name = f"lora {reference}"
        tuned = adapter_of(inputs, inputs / name)
        if reference == "start":  # as TRL finds it: an adapter that is loaded to go on from
            plain = transformers.AutoModelForCausalLM.from_pretrained(inputs / "model", dtype=torch.float32)
            tuned = peft.PeftModel.from_pretrained(plain, inputs / name, is_trainable=True)
        starts[reference] = tuned, {"base": inputs / "model", "start": None, "other": inputs / "reference"}[reference]
        value = str(inputs / "reference") if reference == "other" else reference
        tuning = ["tuning.kind=lora", f"tuning.adapters={inputs / name}"]
        for precompute in ("false", "true"):
            run = f"{name} {precompute}"
            commands.append(train_command(inputs, run, [
                *run_settings(inputs, run, "dpo", [], tuning), f"reference={value}",
                f"preference.precompute_ref_log_probs={precompute}"]))
    return starts, run_many(1, commands)


@pytest.mark.parametrize("reference", REFERENCES)
def test_adapters(reference, inputs, adapters, record_errors):
    starts, result = adapters
    tuned, base = starts[reference]
    log, _ = peers.train("dpo", None, base, peers.answers(), inputs / "trl", peft_model=tuned)
    errors = compare_logs(log_of(inputs, f"lora {reference} false", result), log, NAMES + LOGITS)
    record_errors(errors)
    assert_within(errors, {kind: LIMITS[kind] for kind in errors})


@pytest.mark.parametrize("reference", REFERENCES)
def test_precomputed_log_probs_are_those_of_the_reference(reference, inputs, adapters):
    """To the bits: one pair per micro batch either way."""
    live, precomputed = (log_of(inputs, f"lora {reference} {each}", adapters[1]) for each in ("false", "true"))
    fields = ("loss", "grad_norm", *NAMES, *LOGITS)
    strip = lambda log: [{name: line[name] for name in fields if name in line} for line in log]
    assert strip(live) == strip(precomputed)
    assert len(live) == peers.STEPS and math.isfinite(live[-1]["loss"])


@pytest.mark.parametrize("stage", ["dpo", "kto", "orpo"])
def test_packing(stage, inputs):
    """All pairs in one batch, packed or not, are the same step."""
    commands, logs = [], []
    for packing in ("false", "true"):
        # KTO's KL is estimated by answers to the next prompt, and packing changes which is next.
        without_kl = ["preference.loss=[apo_zero_unpaired]"] if stage == "kto" else []
        more = [f"data.packing={packing}", "run.global_batch=12", "run.steps=3", "run.micro_batch=2", *without_kl]
        name = f"packed-{stage}-{packing}"
        commands.append(train_command(inputs, name, run_settings(inputs, name, stage, more)))
    result = run_many(2, commands)
    logs = [log_of(inputs, f"packed-{stage}-{packing}", result) for packing in ("false", "true")]
    assert len(logs[0]) == len(logs[1]) == 3, failure_text(result)[-1500:]
    for apart, packed in zip(*logs):
        assert relative(packed["loss"], apart["loss"]) <= 1e-5, (apart, packed)
