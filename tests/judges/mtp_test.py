#!/usr/bin/env python3
"""Multi-token prediction against layers of transformers: losses of all depths and every gradient under each kind of
layout, packed or not; then runs that train it, save, resume elsewhere and export; and what is refused."""
import argparse
import json
import pathlib
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file

import mtp_model
import tiny_models
from expectations import expect, failures
from grads_test import LIMITS, compare, relative
from program import failure_text, run, run_many, words_of

WEIGHT, BALANCE = 0.3, 0.2
ROWS = tiny_models.make_rows(8)  # some shorter than a depth's reach
TP, PP, CP, EP = (f"parallel.{axis}=2" for axis in ("tensor", "pipeline", "context", "expert"))
FULL, SELECTIVE, WHOLE = "memory.recompute=full", "memory.recompute=selective", "parallel.sequence=false"
MB2, ZERO2, ZERO3 = "run.micro_batch=2", "parallel.zero=2", "parallel.zero=3"
V, INTERLEAVED = (["parallel.virtual_stages=2", f"parallel.schedule={name}"] for name in ("dualpipev", "interleaved"))
ZERO_BUBBLE = "parallel.schedule=zero_bubble"
BALANCED = f"experts.balance_coefficient={BALANCE}"  # per row or document
# model, depths, packed, ranks, layout
CASES = [
    ("plain", 1, False, 1, []), ("plain", 2, False, 1, [MB2]), ("plain", 2, False, 1, [FULL]),
    ("plain", 2, True, 1, [SELECTIVE]), ("tied", 2, False, 1, [MB2]), ("balanced", 2, True, 1, [BALANCED]),
    ("plain", 1, False, 2, [TP]), ("plain", 2, False, 2, [TP, WHOLE, MB2]), ("plain", 1, False, 2, [PP]),
    ("plain", 2, True, 2, [PP, FULL]), ("plain", 2, False, 2, [EP]), ("plain", 1, True, 2, [CP]),
    ("plain", 2, False, 2, [CP, MB2]), ("plain", 2, False, 2, [ZERO3, FULL]), ("plain", 2, False, 2, [PP, *V]),
    ("plain", 2, False, 2, [PP, *INTERLEAVED]), ("plain", 2, False, 2, [PP, ZERO_BUBBLE, SELECTIVE]),
    ("tied", 2, False, 2, [PP]), ("tied", 1, False, 2, [ZERO3]),
    ("plain", 2, False, 4, [PP, TP, FULL]), ("plain", 2, True, 4, [CP, PP, EP]), ("plain", 1, False, 4, [PP, ZERO3]),
    ("plain", 2, False, 4, [TP, EP, ZERO2]), ("balanced", 2, False, 4, [BALANCED, CP, PP, FULL]),
]


def references(folder):
    made = {}
    for name, changes in (("plain", {}), ("tied", {"tie_word_embeddings": True}), ("balanced", {})):
        place = folder / name
        place.mkdir()
        model, depths = mtp_model.write_model(place / "model", **changes)
        tiny_models.write_rows(place / "rows.jsonl", ROWS)
        tiny_models.write_rows(place / "packed.jsonl", tiny_models.pack(ROWS, 3))
        for count in {depths for model, depths, *_ in CASES if model == name}:
            balance = BALANCE if name == "balanced" else 0.0
            made[name, count] = mtp_model.reference(model, depths[:count], ROWS, WEIGHT, place, balance)
    return made


def judge_group(cases, wanted, folder, ranks, device):
    """All cases with the same number of ranks, in one launch of the program."""
    commands, outs = [], [folder / f"{ranks}-{i}.safetensors" for i in range(len(cases))]
    for (model, depths, packed, _, layout), out in zip(cases, outs):
        judge = wanted[model, depths].judge
        commands.append(["grads", "--model", judge.model, "--out", out,
                         "--rows", judge.rows.parent / "packed.jsonl" if packed else judge.rows,
                         *words_of([f"device={device}", f"multi_token_prediction.depths={depths}",
                                    f"multi_token_prediction.loss_weight={WEIGHT}", *layout])])
    result = run_many(ranks if ranks > 1 else None, commands)
    lines = result.stdout.splitlines()
    for number, ((model, depths, packed, _, layout), out) in enumerate(zip(cases, outs)):
        name = f"{model} depths {depths} {'packed ' if packed else ''}{ranks} ranks {' '.join(layout)}"
        if number >= len(lines) or not out.exists():
            expect(False, name, failure_text(result))
            return
        line, reference = json.loads(lines[number]), wanted[model, depths]
        errors, worst, wrong = compare(line, load_file(out), reference.judge)
        further = max(relative(found, loss) for found, loss in zip(line["mtp_loss"], reference.mtp_loss, strict=True))
        numbers = "  ".join(f"{kind} {error:.1e}" for kind, error in {**errors, "mtp_loss": further}.items())
        expect(not wrong and further <= LIMITS["loss"], f"{name}  {numbers} ({worst})", wrong)


LESS = "tuning.hidden_dropout=0.1"
# ranks, layout; the first is the reference of the others
DROPPING = [(1, []), (1, [LESS]), (1, [FULL]), (2, [TP]), (2, [PP]), (2, [CP])]


def judge_dropout(folder, wanted):
    """Hidden states of the mtp layers are dropped like all others: by token alone, under any layout."""
    judge, found = wanted["plain", 2].judge, []
    for ranks in (None, 2):
        cases = [layout for count, layout in DROPPING if count == (ranks or 1)]
        outs = [folder / f"dropout-{ranks}-{number}.safetensors" for number in range(len(cases))]
        result = run_many(ranks, [["grads", "--model", judge.model, "--rows", judge.rows, "--out", out, *words_of(
            ["multi_token_prediction.depths=2", "tuning.hidden_dropout=0.3", *layout])]
            for layout, out in zip(cases, outs)])
        if not all(out.exists() for out in outs):
            expect(False, f"{ranks or 1} ranks apply hidden dropout", failure_text(result))
            return
        found += [load_file(out) for out in outs]
    for (ranks, layout), gradients in zip(DROPPING[1:], found[1:]):
        error = max(relative(gradients[name], one) for name, one in found[0].items())
        fine = error > 1e-2 if LESS in layout else error <= 1e-4
        expect(fine, f"hidden dropout, {ranks} ranks {' '.join(layout)}: {error:.1e}")


def train(folder, ranks, output, steps, *settings):
    """A run's log and its stderr."""
    yaml = folder / "run.yaml"
    yaml.write_text("{}\n")
    rows = [row for row in ROWS if tiny_models.trained_tokens([row])]
    tiny_models.write_rows(folder / "trained.jsonl", rows)
    said = ["device=cpu", f"model.path={folder / 'model'}", "model.dtype=fp32", "tuning.kind=full",
            f"data.train=[{folder / 'trained.jsonl'}]", "data.packing=false", f"run.steps={steps}",
            f"run.global_batch={len(rows)}", "optimizer.schedule=constant", f"run.output={output}",
            f"multi_token_prediction.loss_weight={WEIGHT}", *settings]
    result = run(ranks if ranks > 1 else None, ["train", yaml], said)
    if result.returncode != 0:
        return [], failure_text(result)
    return [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()], result.stderr


def places(k):
    """The positions of the trained rows that have a token k further on."""
    return sum(max(len(row["input_ids"]) - k, 0) for row in ROWS if tiny_models.trained_tokens([row]))


def weights(folder):
    return {name: tensor for file in folder.glob("*.safetensors") for name, tensor in load_file(file).items()}


def same(found, wanted):
    return found.keys() == wanted.keys() and all(torch.equal(found[name], wanted[name]) for name in wanted)


def judge_runs(folder, wanted):
    """At learning rate 0 nothing changes, and the export has every byte of the source except the depth that was not
    requested. A saved run resumes under another layout, and both train the mtp loss."""
    place, source = folder / "plain", weights(folder / "plain/model")
    log, text = train(place, 2, folder / "still", 1, "multi_token_prediction.depths=1", "optimizer.lr=0", PP,
                      f"data.valid=[{place / 'trained.jsonl'}]", "run.eval_every=1")
    expect(log and relative(log[0]["mtp_loss"], wanted["plain", 1].mtp_loss) <= LIMITS["loss"], "logged losses", text)
    routed = log and sum(log[0]["experts"]["tokens_per_expert"]["mtp.1"])
    expect(routed == 2 * places(1), "mtp experts see exactly the existing positions", f"{routed}")
    expect(log and relative(log[0]["eval_loss"], log[0]["loss"]) <= LIMITS["loss"], "an evaluation excludes mtp")
    left_out = {name for name in source if name.startswith("model.layers.5.")}
    expect(same(weights(folder / "still/final"), {name: source[name] for name in source.keys() - left_out}),
           "an export has the bytes of its source")
    expect(f" {len(left_out)} tensors of model.layers.5. are not trained" in text, "what is left out is reported", text)
    learn = ["optimizer.lr=1e-3", "multi_token_prediction.depths=2", "run.save_every=1"]
    whole, text = train(place, 1, folder / "whole", 3, *learn)
    expect(whole and whole[-1]["mtp_loss"][1] < whole[0]["mtp_loss"][1] - 0.01, "the mtp loss falls", text)
    again, text = train(place, 2, folder / "again", 3, *learn, TP, f"run.resume={folder / 'whole/checkpoint-1'}")
    expect(again and relative([line["mtp_loss"] for line in again], [line["mtp_loss"] for line in whole[1:]]) <= 2e-5,
           "a run resumes under another layout", text)


def judge_unequal_copies(folder, wanted):
    """A copy that differs from the embedding is reported and not used."""
    judge = wanted["plain", 1].judge
    changed = weights(judge.model)
    changed["model.layers.4.embed_tokens.weight"] += 1
    save_file(changed, judge.model / "model.safetensors")
    result = run(None, ["grads", "--model", judge.model, "--rows", judge.rows, "--out", folder / "unequal.safetensors"],
                 ["multi_token_prediction.depths=1"])
    expect("'model.layers.4.embed_tokens.weight' differs from 'model.embed_tokens.weight'" in result.stderr
           and relative(json.loads(result.stdout)["mtp_loss"], wanted["plain", 1].mtp_loss) <= LIMITS["loss"],
           "a copy that differs is reported", failure_text(result))


def judge_refusals(folder):
    model = folder / "plain/model"
    llama = folder / "llama"
    tiny_models.write_model(tiny_models.config_of("llama"), llama)
    for path, settings, why in (
            (model, ["multi_token_prediction.depths=3"], "model has 2 MTP layers"),
            (llama, ["multi_token_prediction.depths=1"], "model has 0 MTP layers"),
            (model, ["multi_token_prediction.depths=1", "tuning.kind=lora"], "with tuning.kind lora"),
            (model, ["multi_token_prediction.depths=1", "experts.balance=pooled", "experts.balance_coefficient=1"],
             "experts.balance pooled"),
            (model, ["multi_token_prediction.depths=-1"], "multi_token_prediction.depths")):
        words = ["grads", "--model", path, "--rows", folder / "plain/rows.jsonl", "--out", folder / "none.safetensors"]
        result = run(None, words, settings)
        said = result.stderr.strip().splitlines()
        expect(result.returncode == 2 and len(said) == 1 and why in said[0], f"refused: {settings}",
               failure_text(result))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", help="cpu, or npu: losses and gradients alone")
    device = parser.parse_args().device
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        wanted = references(folder)
        for ranks in sorted({case[3] for case in CASES}):
            judge_group([case for case in CASES if case[3] == ranks], wanted, folder, ranks, device)
        if device == "cpu":
            judge_dropout(folder, wanted)
            judge_runs(folder, wanted)
            judge_refusals(folder)
            judge_unequal_copies(folder, wanted)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
