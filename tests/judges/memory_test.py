#!/usr/bin/env python3
"""Memory by layout, as torch's allocator counts it: activations scale as 1 / context; experts' weights, gradients and
optimizer states as 1 / (expert · expert_tensor); each within 10 %."""
import json
import pathlib
import sys
import tempfile

from program import failure_text, run_many, words_of

CONFIG = dict(
    model_type="qwen3_moe", hidden_size=128, num_hidden_layers=6, num_attention_heads=8, num_key_value_heads=4,
    head_dim=16, intermediate_size=128, moe_intermediate_size=128, num_experts=8, num_experts_per_tok=2,
    norm_topk_prob=True, vocab_size=256, tie_word_embeddings=False, rms_norm_eps=1e-6, hidden_act="silu",
    rope_theta=10000.0, max_position_embeddings=4096, decoder_sparse_step=1, mlp_only_layers=[])
TOKENS = 2048
# Zero 0: a rank's memory does not also shrink with the number of data-parallel ranks.
COMMON = ["tuning.kind=full", "parallel.zero=0", "run.micro_batch=1"]
# ranks, context, settings
CONTEXT = [
    (1, 1, []),
    (2, 2, ["parallel.context=2", "parallel.context_method=ring"]),
    (2, 2, ["parallel.context=2", "parallel.context_method=ulysses"]),
    (4, 4, ["parallel.context=4", "parallel.context_method=ring"]),
    (4, 4, ["parallel.context=4", "parallel.context_method=ulysses"]),
    (4, 4, ["parallel.context=4", "parallel.context_method=hybrid", "parallel.ulysses=2"]),
]
# ranks, expert · expert_tensor, settings
EXPERTS = [
    (1, 1, []),
    (2, 2, ["parallel.expert=2"]),
    (2, 2, ["parallel.tensor=2", "parallel.expert_tensor=2"]),
    (4, 4, ["parallel.expert=4"]),
    (4, 4, ["parallel.tensor=2", "parallel.expert_tensor=2", "parallel.expert=2"]),
]
WIDTHS = (128, 256)  # of experts: the difference between the two is experts only
failures = 0


def write_model(folder, width):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG | dict(moe_intermediate_size=width)))
    return folder


def measure(ranks, cases):
    """The line of `bench step` for each case: a model, tokens per row, rows, settings."""
    result = run_many(ranks, [["bench", "step", "--model", model, "--steps", 1, *words_of(
        [*COMMON, f"data.max_length={tokens}", f"run.global_batch={rows}", *settings])]
        for model, tokens, rows, settings in cases])
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    if len(lines) != len(cases):
        raise SystemExit(failure_text(result))
    return lines


def check(what, one, share, parts):
    global failures
    ratio = share * parts / one
    fine = abs(ratio - 1) <= 0.1
    failures += not fine
    print(f"{'ok' if fine else 'FAILED'}: {what}: {share * 1024:.1f} MiB of {one * 1024:.1f} on one rank, "
          f"{ratio:.3f} x 1/{parts}", flush=True)


def main():
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        models = [write_model(folder / str(width), width) for width in WIDTHS]
        one = {}
        for ranks in (1, 2, 4):
            context = [case for case in CONTEXT if case[0] == ranks]
            experts = [case for case in EXPERTS if case[0] == ranks]
            lines = iter(measure(ranks, [
                *((models[0], TOKENS, 1, settings) for _, _, settings in context),
                *((model, 64, ranks, settings) for _, _, settings in experts for model in models)]))
            for _, parts, settings in context:
                share = next(lines)["activations_gib"]
                check(f"activations, {' '.join(settings)}", one.setdefault("activations", share), share, parts)
            for _, parts, settings in experts:
                narrow, wide = next(lines)["states_gib"], next(lines)["states_gib"]
                check(f"experts, {' '.join(settings)}", one.setdefault("experts", wide - narrow), wide - narrow, parts)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
