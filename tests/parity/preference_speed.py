#!/usr/bin/env python3
"""Speed and memory of DPO steps, by hand: `trireme train` in turn with TRL's DPOTrainer, each in a process of its own, on
the same pairs; then what a reference costs with LoRA. Every contender takes the same pairs per step, one at a time."""
import argparse
import json
import pathlib
import random
import resource
import sys
import tempfile
import time

import speed_runs
from step_speed import QWEN3_107M

PROMPT, ANSWER, PAIRS, STEPS = 256, 256, 2, 3
HANG_SECONDS = 3000
# name: what TRL is told, our settings for the same numbers in memory
PRECISIONS = {"TRL's defaults": (dict(weights="fp32", bf16=True, gradient_checkpointing=True), []),
              "no recomputation": (dict(weights="fp32", bf16=True, gradient_checkpointing=False), []),
              "all in bf16": (dict(weights="bf16", bf16=False, gradient_checkpointing=False),
                              ["optimizer.masters=none", "optimizer.moments=bf16"])}


def write_inputs(folder):
    import torch
    import transformers
    torch.manual_seed(0)
    config = transformers.Qwen3Config(**QWEN3_107M, pad_token_id=0, eos_token_id=1, bos_token_id=1)
    transformers.AutoModelForCausalLM.from_config(config).to(torch.bfloat16).save_pretrained(folder / "model")
    generator = random.Random(7)

    def ids(count):
        return [generator.randrange(2, QWEN3_107M["vocab_size"]) for _ in range(count)]

    rows = [{"prompt_ids": ids(PROMPT), "chosen_ids": ids(ANSWER), "rejected_ids": ids(ANSWER)} for _ in range(PAIRS * STEPS)]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def peer(folder, options, lora):
    """This process as the peer; prints seconds of the best step and the peak of memory."""
    import preference_peers as peers
    import datasets
    import peft
    import torch
    import transformers
    import trl
    torch.set_num_threads(2)
    folder, times = pathlib.Path(folder), []

    class Clock(transformers.TrainerCallback):
        def on_step_begin(self, *arguments, **more):
            self.begin = time.perf_counter()

        def on_step_end(self, *arguments, **more):
            times.append(time.perf_counter() - self.begin)

    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[options.pop("weights")]
    load = lambda: transformers.AutoModelForCausalLM.from_pretrained(folder / "model", dtype=dtype)
    trl.DPOTrainer._prepare_dataset = peers.untouched
    settings = peers.settings(folder / "trl") | dict(per_device_train_batch_size=1, gradient_accumulation_steps=PAIRS,
                                                     max_steps=STEPS, max_length=PROMPT + ANSWER, max_grad_norm=1.0, **options)
    words = tokenizer(peers)
    extra = dict(peft_config=peft.LoraConfig(r=8, lora_alpha=16, target_modules="all-linear")) if lora else {}
    trainer = trl.DPOTrainer(model=load(), ref_model=None if lora else load(), args=trl.DPOConfig(**settings),
                             train_dataset=datasets.Dataset.from_json(str(folder / "pairs.jsonl")),
                             processing_class=words, callbacks=[Clock()], **extra)
    trainer.train()
    print(json.dumps({"seconds": min(times), "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}))


def tokenizer(peers):
    peers.tiny_models.VOCABULARY = 16  # its words are never used
    return peers.tokenizer()


def run_ours(folder, settings):
    """The best of the steps that train; their memory is the process's."""
    log = speed_runs.run_ours(folder, [
        "stage=dpo", f"data.train=[{folder / 'pairs.jsonl'}]", "data.packing=false", f"data.max_length={PROMPT + ANSWER}",
        f"data.cache={folder / 'cache'}", f"run.steps={STEPS}", f"run.global_batch={PAIRS}", *settings], HANG_SECONDS)
    return {"seconds": min(line["step_seconds"] for line in log), "gib": max(line["memory_gib"] for line in log)}


def best_of(rounds, contenders):
    found = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, measure in contenders.items():
            found[name].append(measure())
    return {name: {key: min(line[key] for line in lines) for key in ("seconds", "gib")} for name, lines in found.items()}


def print_row(case, ours, other):
    tokens = PAIRS * 2 * (PROMPT + ANSWER)  # of both sides, whether or not their prompt is computed twice
    cells = (tokens / ours["seconds"], tokens / other["seconds"], other["seconds"] / ours["seconds"], ours["gib"],
             other["gib"], ours["gib"] / other["gib"])
    print(f"{case:34}" + "".join(f"{cell:10.2f}" for cell in cells), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2, help="how often each is measured, in turn")
    parser.add_argument("--peer", nargs=2, metavar=("FOLDER", "OPTIONS"), help=argparse.SUPPRESS)
    parser.add_argument("--lora", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        return peer(arguments.peer[0], json.loads(arguments.peer[1]), arguments.lora)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        write_inputs(folder)
        print(f"{'DPO, pairs of 512, 2 threads':34}" + "".join(
            f"{word:>10}" for word in ("tokens/s", "theirs", "ratio", "GiB", "theirs", "ratio")), flush=True)
        for name, (theirs, ours) in PRECISIONS.items():
            best = best_of(arguments.rounds, {
                "peer": lambda: speed_runs.run_peer(__file__, folder, theirs), "ours": lambda: run_ours(folder, ["tuning.kind=full", *ours])})
            print_row(f"full, {name}", best["ours"], best["peer"])
        best = best_of(arguments.rounds, {
            "once": lambda: run_ours(folder, ["tuning.kind=full"]),
            "twice": lambda: run_ours(folder, ["tuning.kind=full", "preference.share_prompt=false"])})
        print_row("full, prompts once against twice", best["once"], best["twice"])
        lora = ["tuning.kind=lora", "tuning.rank=8", "tuning.alpha=16"]
        best = best_of(arguments.rounds, {
            "peer": lambda: speed_runs.run_peer(__file__, folder, PRECISIONS["all in bf16"][0], "--lora"),
            "ours": lambda: run_ours(folder, lora), "without": lambda: run_ours(folder, [*lora, "reference=none"])})
        print_row("LoRA, all in bf16", best["ours"], best["peer"])
        print(f"LoRA: the reference takes {1 - best['without']['seconds'] / best['ours']['seconds']:.2f} of a step and "
              f"{best['ours']['gib'] - best['without']['gib']:.2f} GiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
