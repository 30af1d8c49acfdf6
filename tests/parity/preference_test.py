#!/usr/bin/env python3
"""Preference training against TRL, ten steps in fp32: loss, gradient norm, rewards/*, logps/* of every step, and every
gradient of the first; every loss, divergence, and reference. Then the same gradients under layouts: each equal to one
rank's."""
import argparse
import json
import math
import pathlib
import sys
import tempfile

import peft
import torch
import transformers
from safetensors.torch import load_file

import preference_peers as peers
import tiny_models
from program import failure_text, run_many, words_of

LOSS, NORM, GRADIENT, REWARD, LOGPS = 2e-5, 1e-4, 1e-4, 2e-5, 3e-5
# These two take an exponential of a log-ratio, or of one over a temperature of 0.05: the last digits of fp32 sums of
# log-probabilities, of the peer's as of ours, show in them.
STEEP, STEEPNESS = {"dpo forward_kl", "dpo discopop"}, 5
LAYOUT = {"loss": 1e-5, "gradient": 1e-4, "metrics": 1e-4}

# name: stage, our settings, TRL's
CASES = {f"dpo {loss}": ("dpo", [f"preference.loss=[{loss}]"], dict(loss_type=[loss]))
         for loss in ("sigmoid", "hinge", "ipo", "nca_pair", "bco_pair", "sppo_hard", "aot", "aot_unpaired", "apo_zero",
                      "apo_down", "discopop", "sft", "sigmoid_norm")}
CASES |= {f"dpo {loss} smoothed": ("dpo", [f"preference.loss=[{loss}]", "preference.label_smoothing=0.1"],
                                   dict(loss_type=[loss], label_smoothing=0.1)) for loss in ("robust", "exo_pair", "aot")}
CASES |= {f"dpo {divergence}": ("dpo", [f"preference.divergence={divergence}"], dict(f_divergence_type=divergence))
          for divergence in ("forward_kl", "js_divergence", "alpha_divergence")}
CASES |= {
    "cdpo": ("dpo", ["preference.label_smoothing=0.1"],
             dict(loss_type=["sigmoid", "robust"], loss_weights=[1.8, -0.8], label_smoothing=0.1)),
    "dpo mixed": ("dpo", ["preference.loss=[sigmoid,bco_pair,sft]", "preference.weights=[0.8,0.2,1.0]"],
                  dict(loss_type=["sigmoid", "bco_pair", "sft"], loss_weights=[0.8, 0.2, 1.0])),
    "rpo": ("dpo", ["preference.sft_weight=0.5"], dict(loss_type=["sigmoid", "sft"], loss_weights=[1.0, 0.5])),
    "ld-dpo": ("dpo", ["preference.ld_alpha=0.3", "preference.beta=0.4"], dict(ld_alpha=0.3, beta=0.4)),
    "ld-dpo with sft": ("dpo", ["preference.ld_alpha=0.0", "preference.sft_weight=0.5"],
                        dict(ld_alpha=0.0, loss_type=["sigmoid", "sft"], loss_weights=[1.0, 0.5])),
    "kto": ("kto", [], {}),
    "kto weights": ("kto", ["preference.desirable_weight=0.7", "preference.undesirable_weight=1.5", "preference.beta=0.3"],
                    dict(desirable_weight=0.7, undesirable_weight=1.5, beta=0.3)),
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
# ranks, settings
LAYOUTS = [(1, ["run.micro_batch=4"]), (2, ["parallel.tensor=2"]), (2, ["parallel.pipeline=2"]),
           (2, ["parallel.context=2"]), (2, ["parallel.context=2", "parallel.context_method=ulysses", "run.micro_batch=2"]),
           (2, ["parallel.zero=3", "run.micro_batch=4"]), (2, ["parallel.zero=0", "memory.recompute=full"]),
           (2, ["parallel.pipeline=2", "parallel.schedule=interleaved", "parallel.virtual_stages=2"]),
           (2, ["parallel.pipeline=2", "parallel.schedule=dualpipev", "parallel.virtual_stages=2", "run.micro_batch=2"]),
           (4, ["parallel.tensor=2", "parallel.context=2"]), (4, ["parallel.pipeline=2", "parallel.zero=2"]),
           (4, ["parallel.tensor=2", "parallel.pipeline=2", "parallel.schedule=zero_bubble"]), (3, [])]


def write_models(folder):
    config = tiny_models.config_of("llama", pad_token_id=0, eos_token_id=1, bos_token_id=1)
    tiny_models.write_model(config, folder / "model")
    other = tiny_models.write_model(config, folder / "reference")
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.01)
    other.save_pretrained(folder / "reference")


def run_settings(folder, name, stage, ours, tuning=("tuning.kind=full",)):
    data = folder / ("labelled.jsonl" if stage == "kto" else "pairs.jsonl")
    reference = [f"reference={folder / 'reference'}"] if stage in ("dpo", "kto") else []
    adamw = [f"optimizer.{key}={value}" for key, value in peers.ADAMW.items()]
    return ["device=cpu", f"stage={stage}", f"model.path={folder / 'model'}", "model.dtype=fp32", f"data.train=[{data}]",
            "data.shuffle=false", "data.packing=false", "data.max_length=64", f"data.cache={folder / 'cache'}", *adamw,
            f"optimizer.lr={peers.LR}", "optimizer.schedule=constant", "optimizer.clip=0", f"run.steps={peers.STEPS}",
            f"run.global_batch={peers.BATCH}", "run.micro_batch=1", "run.save_every=0", f"run.output={folder / 'out' / name}",
            *reference, *tuning, *ours]


def relative(found, wanted):
    return abs(found - wanted) / max(abs(wanted), 1e-6)


def compare_logs(found, wanted, slack=1):
    """The worst of each kind over all steps."""
    worst = {"loss": 0.0, "norm": 0.0, "rewards": 0.0, "logps": 0.0}
    if len(found) != len(wanted):
        return worst, f"{len(found)} steps instead of {len(wanted)}"
    for ours, theirs in zip(found, wanted):
        worst["loss"] = max(worst["loss"], relative(ours["loss"], theirs["loss"]))
        worst["norm"] = max(worst["norm"], relative(ours["grad_norm"], theirs["grad_norm"]))
        for name in NAMES:
            if (name in ours) != (name in theirs) and name != "nll_loss":
                return worst, f"step {ours['step']}: {name} is in one of the logs only"
            if name in ours and name in theirs:
                kind = "logps" if name.startswith("logps") else "rewards"
                scale = max(abs(theirs[name]), 1.0)
                worst[kind] = max(worst[kind], abs(ours[name] - theirs[name]) / scale)
    limits = {"loss": LOSS, "norm": NORM, "rewards": REWARD, "logps": LOGPS}
    return worst, ", ".join(kind for kind, limit in limits.items() if not worst[kind] <= limit * slack)


def log_of(folder, name):
    path = folder / "out" / name / "log.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def gradient_error(found, wanted):
    if found.keys() != wanted.keys():
        return math.inf, f"names differ: {sorted(found.keys() ^ wanted.keys())[:4]}"
    errors = {name: ((found[name] - wanted[name]).abs().max() / wanted[name].abs().max().clamp_min(1e-12)).item()
              for name in wanted}
    worst = max(errors, key=errors.get)
    return errors[worst], worst


def check_losses(folder, chosen):
    """One start of the program trains all cases, and gives the gradients of their first batches."""
    commands = []
    for name in chosen:
        stage, ours, _ = CASES[name]
        (folder / f"{name}.yaml").write_text("")
        commands.append(["train", folder / f"{name}.yaml", *words_of(run_settings(folder, name, stage, ours))])
        rows = folder / ("labelled-4.jsonl" if stage == "kto" else "pairs-4.jsonl")
        reference = [f"reference={folder / 'reference'}"] if stage in ("dpo", "kto") else []
        commands.append(["grads", "--model", folder / "model", "--rows", rows, "--out", folder / f"{name}.safetensors",
                         *words_of(["device=cpu", f"stage={stage}", *reference, *ours])])
    result = run_many(1, commands)
    failed = 0
    for name in chosen:
        stage, _, theirs = CASES[name]
        rows = peers.labelled(peers.answers()) if stage == "kto" else peers.answers()
        log, gradients = peers.train(stage, folder / "model", folder / "reference", rows, folder / "trl", **theirs)
        found = log_of(folder, name)
        if not found or not (folder / f"{name}.safetensors").is_file():
            print(f"FAILED: {name}: {failure_text(result)[-1500:]}")
            return failed + 1
        worst, wrong = compare_logs(found, log, STEEPNESS if name in STEEP else 1)
        error, where = gradient_error(load_file(folder / f"{name}.safetensors"), gradients)
        if not error <= GRADIENT:
            wrong += f" gradient {where}"
        failed += bool(wrong)
        numbers = "  ".join(f"{kind} {value:.1e}" for kind, value in worst.items())
        print(f"{'FAILED' if wrong else 'ok'}: {name}  {numbers}  gradient {error:.1e} {wrong}", flush=True)
    if result.returncode != 0:
        print(f"FAILED at its end: {failure_text(result)[-1500:]}")
        failed += 1
    return failed


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


def check_adapters(folder):
    """References of an adapter: the base (a fresh adapter in TRL), the starting adapter, another model."""
    failed = 0
    for name, reference in (("lora base", "base"), ("lora start", "start"), ("lora other", str(folder / "reference"))):
        path = folder / name
        tuned = adapter_of(folder, path)
        base = folder / "model" if reference == "base" else folder / "reference" if reference != "start" else None
        if reference == "start":  # as TRL finds it: an adapter that is loaded to go on from
            plain = transformers.AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32)
            tuned = peft.PeftModel.from_pretrained(plain, path, is_trainable=True)
        log, _ = peers.train("dpo", None, base, peers.answers(), folder / "trl", peft_model=tuned)
        (folder / f"{name}.yaml").write_text("")
        words = ["train", folder / f"{name}.yaml",
                 *words_of([*run_settings(folder, name, "dpo", [], ["tuning.kind=lora", f"tuning.adapters={path}"]),
                            f"reference={reference}"])]
        result = run_many(1, [words])
        worst, wrong = compare_logs(log_of(folder, name), log)
        failed += bool(wrong)
        numbers = "  ".join(f"{kind} {value:.1e}" for kind, value in worst.items())
        print(f"{'FAILED' if wrong else 'ok'}: {name}  {numbers} {wrong}", flush=True)
        if result.returncode != 0:
            print(failure_text(result)[-1500:])
    return failed


STAGES = {"dpo": ["preference.loss=[sigmoid,aot,aot_unpaired,sft]", "preference.ld_alpha=0.5"], "kto": [], "orpo": [],
          "simpo": []}


def layout_commands(folder, settings, tag):
    for stage, ours in STAGES.items():
        rows = folder / ("labelled.jsonl" if stage == "kto" else "pairs.jsonl")
        reference = [f"reference={folder / 'reference'}"] if stage in ("dpo", "kto") else []
        yield ["grads", "--model", folder / "model", "--rows", rows, "--out", folder / f"{tag}-{stage}.safetensors",
               *words_of(["device=cpu", f"stage={stage}", *reference, *ours, *settings])]


def check_layouts(folder):
    """Every layout's loss, metrics and gradients are one rank's."""
    result = run_many(1, list(layout_commands(folder, ["run.micro_batch=1"], "one")))
    plain = dict(zip(STAGES, map(json.loads, result.stdout.splitlines())))
    if len(plain) != len(STAGES):
        print(f"FAILED: one rank: {failure_text(result)[-1500:]}")
        return 1
    failed = 0
    for ranks in sorted({ranks for ranks, _ in LAYOUTS}):
        layouts = [settings for count, settings in LAYOUTS if count == ranks]
        commands = [command for number, settings in enumerate(layouts)
                    for command in layout_commands(folder, settings, f"{ranks}-{number}")]
        result = run_many(ranks, commands)
        lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
        if len(lines) != len(commands):
            print(f"FAILED: {ranks} ranks: {failure_text(result)[-2500:]}")
            failed += 1
        for index, line in enumerate(lines):
            number, stage = index // len(STAGES), list(STAGES)[index % len(STAGES)]
            errors = {"loss": relative(line["loss"], plain[stage]["loss"]), "metrics": max(
                abs(line[name] - plain[stage][name]) / max(1, abs(plain[stage][name]))
                for name in NAMES if name in plain[stage])}
            errors["gradient"], _ = gradient_error(load_file(folder / f"{ranks}-{number}-{stage}.safetensors"),
                                                   load_file(folder / f"one-{stage}.safetensors"))
            wrong = ", ".join(kind for kind, limit in LAYOUT.items() if not errors[kind] <= limit)
            failed += bool(wrong)
            numbers = "  ".join(f"{kind} {value:.1e}" for kind, value in errors.items())
            print(f"{'FAILED' if wrong else 'ok'}: {stage} on {ranks} ranks {' '.join(layouts[number])}  {numbers} {wrong}",
                  flush=True)
    return failed


def check_packing(folder):
    """All pairs in one batch, packed or not, are the same step."""
    commands = []
    for stage in ("dpo", "kto", "orpo"):
        for packing in ("false", "true"):
            name = f"packed-{stage}-{packing}"
            (folder / f"{name}.yaml").write_text("")
            # KTO's KL is estimated by answers to the next prompt, and packing changes which is next.
            without_kl = ["preference.loss=[apo_zero_unpaired]"] if stage == "kto" else []
            more = [f"data.packing={packing}", "run.global_batch=12", "run.steps=3", "run.micro_batch=2", *without_kl]
            commands.append(["train", folder / f"{name}.yaml", *words_of(run_settings(folder, name, stage, more))])
    result = run_many(2, commands)
    failed = 0
    for stage in ("dpo", "kto", "orpo"):
        apart, packed = (log_of(folder, f"packed-{stage}-{packing}") for packing in ("false", "true"))
        wrong = "" if len(apart) == len(packed) == 3 else failure_text(result)[-1500:]
        error = max((relative(a["loss"], b["loss"]) for a, b in zip(apart, packed)), default=math.inf)
        if not error <= LAYOUT["loss"]:
            wrong += f" loss {error:.1e}"
        failed += bool(wrong)
        print(f"{'FAILED' if wrong else 'ok'}: {stage} packed  loss {error:.1e} {wrong}", flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=[], help="losses, adapters, layouts, packing; all by default")
    parser.add_argument("--only", default="", help="of the losses: those whose name has this in it")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    parts = {"losses": lambda folder: check_losses(folder, [name for name in CASES if arguments.only in name]),
             "adapters": check_adapters, "layouts": check_layouts, "packing": check_packing}
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        write_models(folder)
        pairs = peers.answers()
        for name, rows in (("pairs", pairs), ("labelled", peers.labelled(pairs))):
            tiny_models.write_rows(folder / f"{name}.jsonl", rows)
            tiny_models.write_rows(folder / f"{name}-4.jsonl", rows[:peers.BATCH])
        for part in arguments.parts or parts:
            failed += parts[part](folder)
    print(f"{failed} failed" if failed else "all equal")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
