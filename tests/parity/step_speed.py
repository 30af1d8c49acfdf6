#!/usr/bin/env python3
"""Speed and memory of one training step, by hand: `trireme bench step` in turn with transformers and torch's fused
AdamW, each in a process of its own; then two ranks of one thread against our own process of two."""
import argparse
import json
import math
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

from program import failure_text, run

QWEN3_107M = dict(hidden_size=768, num_hidden_layers=12, num_attention_heads=12, num_key_value_heads=4, head_dim=64,
                  intermediate_size=2304, vocab_size=32000, tie_word_embeddings=True, max_position_embeddings=2048)
TINY = dict(hidden_size=64, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
            intermediate_size=96, vocab_size=1003, tie_word_embeddings=True, max_position_embeddings=128)
EXPERTS = dict(hidden_size=512, num_hidden_layers=6, num_attention_heads=8, num_key_value_heads=4, head_dim=64,
               intermediate_size=384, moe_intermediate_size=384, num_experts=16, num_experts_per_tok=4,
               norm_topk_prob=True, vocab_size=32000, max_position_embeddings=2048)
FIELDS = ("tokens_per_second", "step_seconds", "tflops", "mfu", "peak_memory_gib", "planned_memory_gib",
          "compute_seconds", "exposed_comm_seconds", "bubble_seconds", "optimizer_seconds")
POSITIVE = ("tokens_per_second", "step_seconds", "tflops", "peak_memory_gib", "planned_memory_gib", "compute_seconds")
LAYOUTS = {"tp 2": ["parallel.tensor=2"], "pp 2": ["parallel.pipeline=2"], "dp 2": []}
EXPERT_LAYOUTS = {"ep 2": ["parallel.expert=2"], "etp 2": ["parallel.expert_tensor=2"], "dp 2": []}
PEER_STEPS = 5
HANG_SECONDS = 1800


def peer(model, dtype, rows, length):
    """This process as the peer: transformers and torch, best of a few steps; prints what `bench step` prints."""
    import torch
    import transformers
    torch.manual_seed(0)
    torch.set_default_dtype({"bf16": torch.bfloat16, "fp32": torch.float32}[dtype])
    config = transformers.AutoConfig.from_pretrained(model)
    network = transformers.AutoModelForCausalLM.from_config(config).train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)
    ids = torch.randint(0, config.vocab_size, (rows, length))
    best = math.inf
    for _ in range(PEER_STEPS):
        begin = time.perf_counter()
        network(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        best = min(best, time.perf_counter() - begin)
    print(json.dumps({"tokens_per_second": rows * length / best, "step_seconds": best,
                      "peak_memory_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}))


def run_peer(model, dtype, rows, length):
    command = [sys.executable, "-W", "ignore", __file__, "--peer", str(model), dtype, str(rows), str(length)]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "2"})
    if result.returncode != 0:
        raise SystemExit(failure_text(result))
    return json.loads(result.stdout)


def wrong_fields(line, tokens):
    """What is wrong with a line of `bench step`: fields that are missing or cannot be."""
    wrong = [f"{field} is {line.get(field)}" for field in FIELDS
             if not (isinstance(line.get(field), (int, float)) and math.isfinite(line[field]) and line[field] >= 0)]
    wrong += [f"{field} is 0" for field in POSITIVE if line.get(field) == 0]
    if not wrong and not math.isclose(line["tokens_per_second"] * line["step_seconds"], tokens, rel_tol=1e-2):
        wrong.append(f"tokens_per_second x step_seconds is not {tokens}")
    return wrong


def run_ours(model, shape, ranks, settings):
    """Two threads in all, on one rank or on two."""
    dtype, micro_batch, global_batch, length = shape
    settings = [f"model.dtype={dtype}", f"run.micro_batch={micro_batch}", f"run.global_batch={global_batch}",
                f"data.max_length={length}", *settings]
    result = run(ranks if ranks > 1 else None, ["bench", "step", "--model", model], settings, 2 // ranks, HANG_SECONDS)
    if result.returncode != 0:
        raise SystemExit(failure_text(result))
    line = json.loads(result.stdout)
    if wrong := wrong_fields(line, global_batch * length):
        raise SystemExit(f"bench step: {', '.join(wrong)}\n{line}")
    return line


def best_of(rounds, contenders):
    """Contenders (name to function) in turn; of each the fastest line, with the smallest peak of memory."""
    lines = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, measure in contenders.items():
            lines[name].append(measure())
    return {name: {**max(found, key=lambda line: line["tokens_per_second"]),
                   "peak_memory_gib": min(line["peak_memory_gib"] for line in found)} for name, found in lines.items()}


def row(case, ours, other, against):
    return {"case": case, "against": against, "ratio": ours["tokens_per_second"] / other["tokens_per_second"],
            "memory_ratio": ours["peak_memory_gib"] / other["peak_memory_gib"], "ours": ours, "peer": other}


def against_transformers(model, rounds, rows, length):
    for dtype in ("bf16", "fp32"):
        shape = (dtype, rows, rows, length)
        best = best_of(rounds, {"peer": lambda: run_peer(model, dtype, rows, length),
                                "ours": lambda: run_ours(model, shape, 1, [])})
        yield row(f"{dtype} {rows} x {length}, 2 threads", best["ours"], best["peer"], "transformers")


def against_one_process(model, rounds, rows, length, layouts):
    shape = ("bf16", 1, rows, length)
    contenders = {"one": lambda: run_ours(model, shape, 1, [])}
    for name, settings in layouts.items():
        contenders[name] = lambda settings=settings: run_ours(model, shape, 2, settings)
    best = best_of(rounds, contenders)
    for name in layouts:
        yield row(f"bf16 {rows} x {length}, {name}", best[name], best["one"], "one process, 2 threads")


def print_row(case, against, *numbers):
    """Words are the table's head; ratios above 1: ours is faster, memory ratios below 1: ours needs less."""
    cells = (number if isinstance(number, str) else f"{number:.2f}" for number in numbers)
    print(f"{case:28} {against:24}" + "".join(f"{cell:>10}" for cell in cells), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experts", action="store_true", help="a model with experts instead of the dense one")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured, in turn")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write every number there too")
    parser.add_argument("--peer", nargs=4, metavar=("MODEL", "DTYPE", "ROWS", "LENGTH"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        model, dtype, rows, length = arguments.peer
        return peer(model, dtype, int(rows), int(length))
    import transformers
    found = []
    print_row("case", "against", "tokens/s", "theirs", "ratio", "GiB", "theirs", "ratio")
    with tempfile.TemporaryDirectory() as model:
        if arguments.experts:
            transformers.Qwen3MoeConfig(**EXPERTS).save_pretrained(model)
        else:
            transformers.Qwen3Config(**QWEN3_107M).save_pretrained(model)
        for part in (against_transformers(model, arguments.rounds, 2, 512),
                     against_one_process(model, arguments.rounds, 16, 512,
                                         EXPERT_LAYOUTS if arguments.experts else LAYOUTS)):
            for line in part:
                ours, other = line["ours"], line["peer"]
                print_row(line["case"], line["against"], ours["tokens_per_second"], other["tokens_per_second"],
                          line["ratio"], ours["peak_memory_gib"], other["peak_memory_gib"], line["memory_ratio"])
                found.append(line)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
