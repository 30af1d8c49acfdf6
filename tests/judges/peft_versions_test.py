#!/usr/bin/env python3
"""An adapter of experts under two pairs of transformers and PEFT versions. `final/` loads completely with transformers
5; the other form, written by the command that the run prints at its end, loads completely with transformers 4. With
either, the loss equals the merged model's, and every tensor of the file was used."""
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

PAIRS = {"5": ".venv-judges/bin/python", "4": ".venv-judges-transformers-4/bin/python"}
FAMILIES = ["qwen3_moe", "mixtral"]


def load(questions):
    """The other side, in a pair's Python: prints a line per question (model, adapter or nothing, rows)."""
    import peft
    import torch
    import transformers
    from safetensors import safe_open
    for model, adapter, rows in questions:
        tuned = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        found = {"transformers": transformers.__version__, "peft": peft.__version__}
        if adapter:
            tuned = peft.PeftModel.from_pretrained(tuned, adapter)
            # B starts at zero: what was not loaded still is.
            b = [value for name, value in tuned.named_parameters() if "lora_B" in name]
            with safe_open(pathlib.Path(adapter) / "adapter_model.safetensors", "pt") as file:
                found |= {"in_file": sum("lora_B" in name for name in file.keys()), "there": len(b),
                          "loaded": sum(bool(value.abs().max() > 0) for value in b)}
        loss = tokens = 0
        for row in map(json.loads, pathlib.Path(rows).read_text().splitlines()):
            labels = torch.tensor(row["labels"][1:])
            with torch.no_grad():
                logits = tuned(input_ids=torch.tensor([row["input_ids"]])).logits[0, :-1]
            loss += torch.nn.functional.cross_entropy(logits, labels, ignore_index=-100, reduction="sum").item()
            tokens += (labels != -100).sum().item()
        print(json.dumps({"loss": loss / tokens, **found}))


def ask(pair, questions):
    result = subprocess.run([PAIRS[pair], "-W", "ignore", __file__, "--load", json.dumps(questions)],
                            capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"FAILED: transformers {pair}: {result.stderr[-1500:]}")
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


def check(what, fine, detail=""):
    print(f"{'ok' if fine else 'FAILED'}: {what} {'' if fine else detail}", flush=True)
    return not fine


def write_run(folder, model):
    sections = {"device": "cpu", "model": {"path": str(model), "dtype": "fp32"},
                "tuning": {"kind": "lora", "rank": 4, "alpha": 16, "dropout": 0.0},
                "data": {"train": [str(folder / "rows.jsonl")], "packing": False, "max_length": 64},
                "optimizer": {"lr": 0.05, "schedule": "constant"},
                "run": {"steps": 3, "global_batch": 4, "save_every": 0, "output": str(folder / "run")}}
    (folder / "run.yaml").write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in sections.items()))


def write_model(family, folder):
    """Readable by both versions: transformers 4 expects some values under other keys."""
    import tiny_models
    changes = {"mlp_only_layers": []} if family == "qwen3_moe" else {}
    made = tiny_models.config_of(family, num_hidden_layers=2, **changes)
    tiny_models.write_model(made, folder)
    config = json.loads((folder / "config.json").read_text())
    config["rope_theta"] = config["rope_parameters"]["rope_theta"]
    if family == "qwen3_moe":
        config["num_experts"] = made.num_experts
    (folder / "config.json").write_text(json.dumps(config))


def prepare(family, folder):
    """Trains, merges, and writes the other form with the command that the run printed; returns the number of
    failures."""
    import tiny_models
    from program import BUILD, failure_text, start
    folder.mkdir()
    write_model(family, folder / "model")
    tiny_models.write_rows(folder / "rows.jsonl", tiny_models.make_rows(6, shortest=8))
    write_run(folder, folder / "model")
    trained = start(None, [BUILD / "trireme", "train", folder / "run.yaml"])
    merged = start(None, [BUILD / "trireme", "merge", "--model", folder / "model", "--adapters", folder / "run/final",
                          "--to", folder / "merged"])
    if trained.returncode or merged.returncode:
        sys.exit(f"FAILED: {family}: {failure_text(trained)}{failure_text(merged)}")
    said = trained.stdout + trained.stderr
    command = re.search(r"^ *\S+ (convert .* --experts-apart)", said, re.M)
    if not command:
        sys.exit(f"FAILED: {family}: no command for the other versions: {said}")
    words = shlex.split(command[1])
    subprocess.run([str(BUILD / "trireme"), *words], check=True, capture_output=True)
    shutil.move(words[words.index("--to") + 1], folder / "apart")
    return check(f"{family}: the run names versions for final/", "as PEFT reads it with transformers 5" in said, said)


def judge(pair, form, folder):
    """The adapter in the form for this pair, for every family."""
    questions = [(str(folder / family / model), str(folder / family / adapter) if adapter else "",
                  str(folder / family / "rows.jsonl"))
                 for family in FAMILIES for model, adapter in (("model", ""), ("merged", ""), ("model", form))]
    answers, failed = ask(pair, questions), 0
    for number, family in enumerate(FAMILIES):
        plain, merged, found = answers[3 * number:3 * number + 3]
        error, effect = (abs(found["loss"] - other["loss"]) / other["loss"] for other in (merged, plain))
        failed += check(f"{family}: transformers {found['transformers']}, PEFT {found['peft']}: {found['loaded']} of "
                        f"{found['in_file']} pairs loaded, loss {error:.1e} from the merged model's, {effect:.1e} from the base's",
                        error < 1e-5 and effect > 1e-3 and found["loaded"] == found["there"] == found["in_file"], found)
    return failed


def main():
    if sys.argv[1:2] == ["--load"]:
        return load(json.loads(sys.argv[2]))
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        failed = sum(prepare(family, folder / family) for family in FAMILIES)
        failed += judge("5", "run/final", folder) + judge("4", "apart", folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
