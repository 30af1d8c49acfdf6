#!/usr/bin/env python3
"""Speed and memory of a GRPO step, by hand: `trireme train` in turn with TRL's GRPOTrainer and transformers' generation,
each in a process of its own: the same model, prompts, number and length of completions, sampled anew in every step."""
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

PROMPTS, GROUP, PROMPT, COMPLETION, STEPS = 8, 8, 64, 128, 2
MICRO_BATCH = 8  # TRL's; a larger one is no faster and takes more memory
HANG_SECONDS = 3000
# name: what TRL is told, our settings for the same numbers in memory
PRECISIONS = {"all in bf16": (dict(weights="bf16", bf16=False, gradient_checkpointing=False),
                              ["optimizer.masters=none", "optimizer.moments=bf16"]),
              "TRL's defaults": (dict(weights="fp32", bf16=True, gradient_checkpointing=True), [])}
REWARD = """import json, sys
for line in sys.stdin:
    print(sum(token % 2 for token in json.loads(line)["completion_ids"]), flush=True)
"""


def write_inputs(folder):
    import torch
    import transformers
    torch.manual_seed(0)
    config = transformers.Qwen3Config(**QWEN3_107M, pad_token_id=0, eos_token_id=1, bos_token_id=1)
    transformers.AutoModelForCausalLM.from_config(config).to(torch.bfloat16).save_pretrained(folder / "model")
    generator = random.Random(7)
    rows = [{"prompt_ids": [generator.randrange(2, QWEN3_107M["vocab_size"]) for _ in range(PROMPT)]}
            for _ in range(PROMPTS * STEPS)]
    (folder / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "reward.py").write_text(REWARD)


def peer(folder, options):
    """This process as the peer; prints the best step's seconds and tokens, and the peak of memory."""
    import preference_peers as peers
    import datasets
    import torch
    import transformers
    import trl
    torch.set_num_threads(2)
    folder, times = pathlib.Path(folder), []
    prompts = [json.loads(line)["prompt_ids"] for line in (folder / "prompts.jsonl").read_text().splitlines()]

    class Clock(transformers.TrainerCallback):
        def on_step_begin(self, *arguments, **more):
            self.begin = time.perf_counter()

        def on_step_end(self, *arguments, **more):
            times.append(time.perf_counter() - self.begin)

    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[options.pop("weights")]
    settings = {key: value for key, value in peers.settings(folder / "trl").items()
                if key not in ("train_sampling_strategy", "max_length")}
    settings |= dict(per_device_train_batch_size=MICRO_BATCH, gradient_accumulation_steps=PROMPTS * GROUP // MICRO_BATCH,
                     max_steps=STEPS, num_generations=GROUP, max_completion_length=COMPLETION, loss_type="grpo", beta=0.0,
                     max_grad_norm=1.0, shuffle_dataset=False, **options)
    peers.tiny_models.VOCABULARY = QWEN3_107M["vocab_size"]
    trainer = trl.GRPOTrainer(
        model=transformers.AutoModelForCausalLM.from_pretrained(folder / "model", dtype=dtype),
        args=trl.GRPOConfig(**settings), processing_class=peers.tokenizer(), callbacks=[Clock()],
        train_dataset=datasets.Dataset.from_list([{"prompt": str(number)} for number in range(len(prompts))]),
        reward_funcs=lambda completion_ids, **more: [float(sum(token % 2 for token in ids)) for ids in completion_ids])
    trainer._tokenize_prompts = lambda numbers: ([prompts[int(number)] for number in numbers], None, {})
    trainer.train()
    lengths = [line["completions/mean_length"] for line in trainer.state.log_history if "completions/mean_length" in line]
    speeds = [length * PROMPTS * GROUP / seconds for length, seconds in zip(lengths, times, strict=True)]
    print(json.dumps({"speed": max(speeds), "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}))


def run_ours(folder, settings):
    log = speed_runs.run_ours(folder, [
        "stage=grpo", "tuning.kind=full", f"data.train=[{folder / 'prompts.jsonl'}]",
        f"data.max_length={PROMPT + GROUP * COMPLETION}", "rl.beta=0", f"rl.group={GROUP}", f"rl.max_new_tokens={COMPLETION}",
        f'rl.rewards=["program:python3 {folder / "reward.py"}"]', f"run.steps={STEPS}", f"run.global_batch={PROMPTS * GROUP}",
        *settings], HANG_SECONDS)
    best = min(log, key=lambda line: line["step_seconds"] / line["completions/mean_length"])
    seconds = best["step_seconds"]
    return {"speed": best["completions/mean_length"] * PROMPTS * GROUP / seconds, "gib": max(line["memory_gib"] for line in log),
            "sampling": best["sampling_seconds"] / seconds, "rewards": best["reward_seconds"] / seconds,
            "log-probs": best["log_prob_seconds"] / seconds,
            "difference": max(line["sampling/sampling_logp_difference/mean"] for line in log)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="how often each is measured, in turn")
    parser.add_argument("--only", choices=PRECISIONS, help="one of the precisions")
    parser.add_argument("--peer", nargs=2, metavar=("FOLDER", "OPTIONS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        return peer(arguments.peer[0], json.loads(arguments.peer[1]))
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        write_inputs(folder)
        print(f"{PROMPTS} prompts x {GROUP} completions x {COMPLETION} tokens, 2 threads; completion tokens per second of a step")
        for name in [arguments.only] if arguments.only else PRECISIONS:
            theirs, ours = PRECISIONS[name]
            mine, other = [], []
            for _ in range(arguments.rounds):
                mine.append(run_ours(folder, ours))
                other.append(speed_runs.run_peer(__file__, folder, theirs))
            best, peak = max(mine, key=lambda line: line["speed"]), max(other, key=lambda line: line["speed"])
            shares = {part: best[part] for part in ("sampling", "rewards", "log-probs")}
            print(f"{name}: {best['speed']:.1f}, TRL {peak['speed']:.1f}, ratio {best['speed'] / peak['speed']:.2f}; GiB "
                  f"{best['gib']:.2f}, TRL {peak['gib']:.2f}; " + ", ".join(f"{part} {share:.2f}" for part, share in shares.items())
                  + f", update {1 - sum(shares.values()):.2f}; sampler to trainer {best['difference']:.5f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
