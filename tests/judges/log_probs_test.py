#!/usr/bin/env python3
"""Log-probabilities of given tokens against log_softmax and gather of transformers in fp32: every label's value, their
weighted sum, and the gradient of every parameter, for each family under every kind of layout; every setting at least
once, including packed rows and context parallelism. --full: all pairs of settings."""
import argparse
import collections
import json
import pathlib
import random
import sys
import tempfile

import torch
from safetensors.torch import load_file

import layouts
import tiny_models
from grads_test import LARGEST_ERROR, program_rows, relative, rows_of
from program import failure_text, run_many, words_of

LIMITS = {"loss": 1e-5, "log_probs": 1e-5, "gradient": 1e-4}
Peer = collections.namedtuple("Peer", "model rows loss log_probs gradients")


def weigh(rows):
    """A weight per label, some negative, some zero."""
    generator = random.Random(9)
    return [{**row, "weights": [generator.choice([0.0, generator.uniform(-1, 1)]) for _ in row["labels"]]}
            for row in rows]


def pack_weights(rows, packed):
    """Weights and documents travel together: documents are packed in turn, as in tiny_models.pack."""
    for index, into in enumerate(packed):
        into["weights"] = [weight for row in rows[index::len(packed)] for weight in row["weights"]]
    return packed


def log_probs_of(model, row):
    """[labels - 1]: the model's log-probability of each label, trained or not."""
    logits = model(input_ids=torch.tensor([row["input_ids"]])).logits[0, :-1].float()
    chosen = torch.tensor(row["input_ids"][1:]).where(torch.tensor(row["labels"][1:]) == -100,
                                                      torch.tensor(row["labels"][1:]))
    return logits.log_softmax(-1).gather(1, chosen[:, None])[:, 0]


def make_peer(folder, case):
    rows = weigh(rows_of(case))
    folder.mkdir(parents=True)
    model = tiny_models.write_model(tiny_models.config_of(case["model"], num_hidden_layers=layouts.layers(case)),
                                    folder / "model")
    given = program_rows(case, rows)
    tiny_models.write_rows(folder / "rows.jsonl", pack_weights(rows, given) if case["rows"] == "packed" else given)
    loss, values = 0.0, []
    for row in rows:
        found = log_probs_of(model, row) if len(row["labels"]) > 1 else torch.zeros(0)
        trained = torch.tensor(row["labels"][1:]) != -100
        part = -(torch.tensor(row["weights"][1:]) * found)[trained].sum()
        if trained.any():
            part.backward()
        loss += part.item()
        values.append([None, *(value if on else None for value, on in zip(found.tolist(), trained.tolist()))])
    order = [index for first in range(3) for index in range(first, len(rows), 3)]
    if case["rows"] == "packed":  # one list per packed row
        values = [[value for index in order if index % 3 == first for value in values[index]] for first in range(3)]
    return Peer(folder / "model", folder / "rows.jsonl", loss, values, tiny_models.gradients(model))


def compare(line, log_probs, found, peer):
    pattern = [[value is None for value in row] for row in log_probs]
    if pattern != [[value is None for value in row] for row in peer.log_probs]:
        return {}, "the labels with a value differ"
    flat = [value for row in log_probs for value in row if value is not None]
    wanted = [value for row in peer.log_probs for value in row if value is not None]
    if found.keys() != peer.gradients.keys():
        return {}, f"names differ: {sorted(found.keys() ^ peer.gradients.keys())}"
    errors = {"loss": relative(line["loss"], peer.loss), "log_probs": relative(flat, wanted),
              "gradient": max(relative(found[name], peer.gradients[name]) for name in found)}
    return errors, ", ".join(kind for kind, limit in LIMITS.items() if not errors[kind] <= limit)


def judge_together(cases, folder, device):
    """Yields case, errors and mismatches; all use the same number of ranks, and one launch of the program runs them."""
    ranks = layouts.ranks(cases[0])
    peers = [make_peer(folder / f"{ranks}-{number}", case) for number, case in enumerate(cases)]
    outs = [folder / f"{ranks}-{number}" for number in range(len(cases))]
    commands = [["grads", "--model", peer.model, "--rows", peer.rows, "--out", out / "gradients.safetensors",
                 "--log-probs", out / "log_probs.jsonl", *words_of([f"device={device}", *layouts.settings(case)])]
                for case, peer, out in zip(cases, peers, outs)]
    result = run_many(ranks, commands)
    lines = result.stdout.splitlines()
    for number, (case, peer, out) in enumerate(zip(cases, peers, outs)):
        if number >= len(lines) or not (out / "gradients.safetensors").exists():
            yield case, {}, failure_text(result)
            continue
        log_probs = [json.loads(text)["log_probs"] for text in (out / "log_probs.jsonl").read_text().splitlines()]
        yield case, *compare(json.loads(lines[number]), log_probs, load_file(out / "gradients.safetensors"), peer)
    if result.returncode != 0:
        raise SystemExit(f"FAILED at exit: {failure_text(result)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="cover all pairs of settings")
    parser.add_argument("--device", default="cpu", help="cpu, or npu")
    arguments = parser.parse_args()
    possible = [case for case in layouts.all_cases() if layouts.ranks(case) <= 4 and case["rows"] != "one"]
    strength = 2 if arguments.full else 1
    dense = [case for case in possible if layouts.is_dense(case)]
    wide = [case for case in possible if not layouts.is_dense(case)]
    cases = layouts.covering(layouts.thinned(dense), strength) + layouts.covering(layouts.thinned(wide), strength)
    torch.set_num_threads(1)
    failed, worst = 0, dict.fromkeys(LIMITS, 0.0)
    with tempfile.TemporaryDirectory() as scratch:
        for ranks in sorted({layouts.ranks(case) for case in cases}):
            together = [case for case in cases if layouts.ranks(case) == ranks]
            for case, errors, wrong in judge_together(together, pathlib.Path(scratch), arguments.device):
                failed += bool(wrong)
                for kind in LIMITS:
                    worst[kind] = max(worst[kind], errors.get(kind, LARGEST_ERROR))
                numbers = "  ".join(f"{kind} {error:.1e}" for kind, error in errors.items())
                print(f"{'FAILED' if wrong else 'ok'}: {layouts.text(case)}  {numbers} {wrong}", flush=True)
    print(f"{len(cases) - failed} of {len(cases)} cases equal to transformers; worst: "
          + ", ".join(f"{kind} {error:.1e}" for kind, error in worst.items()))
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
