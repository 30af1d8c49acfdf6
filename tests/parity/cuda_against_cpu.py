#!/usr/bin/env python3
"""Device cuda against device cpu of the same program, in fp32 on one rank, without another project: whole runs on the
data of examples/weekdays (pretraining, LoRA with dropout, over packed weights, experts, resuming, generation with an adapter) and of examples/pictures (a model that
sees, and what it says of a picture), and gradients under every router and dropout setting. Needs a build with TRIREME_CANN=cuda and a GPU."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

from program import failure_text, run

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DATA = ROOT / "examples/weekdays"
STEPS = 12
# AdamW turns the rounding of a gradient near zero into a whole step, so curves drift apart slowly; one pass must agree.
LIMITS = {"loss": 2e-4, "grad_norm": 5e-3}
GRADS_LIMITS = {"loss": 1e-5, "grad_norm": 1e-4}
BRIEF = [f"run.steps={STEPS}", "log.every=1", "eval.every=0"]
ROUTERS = {
    "balance sequence": ["experts.balance=sequence", "experts.balance_coefficient=0.01"],
    "balance batch, z": ["experts.balance=batch", "experts.balance_coefficient=0.01", "experts.z_coefficient=0.001"],
    "balance global": ["experts.balance=global", "experts.balance_coefficient=0.01"],
    "balance pooled": ["experts.balance=pooled", "experts.balance_coefficient=0.01"],
    "drop": ["experts.overflow=drop", "experts.capacity=1"],
    "pad": ["experts.overflow=pad", "experts.capacity=1"],
    "all-gather": ["experts.dispatch=all_gather"],
    "hidden dropout": ["tuning.hidden_dropout=0.1"],
}


# Adapters over packed weights: nested scales, flat ones and other blocks, experts, DoRA.
PACKED = {
    "nf4": ("dense", ["model.quantise=nf4", "tuning.dropout=0"]),
    "fp4, flat": ("dense", ["model.quantise=fp4", "model.quantise_block=32", "model.quantise_nested=false", "tuning.dropout=0"]),
    "int8": ("dense", ["model.quantise=int8", "tuning.dropout=0"]),
    "nf4, DoRA": ("dense", ["model.quantise=nf4", "tuning.dora=true", "tuning.dropout=0"]),
    "fp8": ("dense", ["model.fp8=rows", "tuning.dropout=0"]),
    "nf4, experts": ("moe", ["model.quantise=nf4", "tuning.dropout=0"]),
}


class Failed(Exception):
    pass


def program(words, settings=()):
    result = run(None, [str(word) for word in words], settings, threads=4)
    if result.returncode != 0:
        raise Failed(failure_text(result)[-2000:])
    return result.stdout


def logged(output):
    return [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]


def worst(found, wanted, limits):
    """The largest relative difference per field over the lines of two logs."""
    if len(found) != len(wanted):
        raise Failed(f"{len(found)} lines, wanted {len(wanted)}")
    return {field: max(abs(a[field] - b[field]) / max(abs(b[field]), 1e-12) for a, b in zip(found, wanted))
            for field in limits}


def check_case(what, limits, on):
    """`on(device)` returns a log; those of both devices are compared."""
    try:
        errors = worst(on("cuda"), on("cpu"), limits)
        wrong = [field for field, limit in limits.items() if not errors[field] <= limit]
    except Failed as failure:
        errors, wrong = {}, [str(failure)]
    numbers = "  ".join(f"{field} {error:.1e}" for field, error in errors.items())
    print(f"{'FAILED' if wrong else 'ok'}: {what}  {numbers} {', '.join(wrong)}", flush=True)
    return bool(wrong)


class Runs:
    def __init__(self, folder):
        self.folder = folder
        for kind in ("dense", "moe"):
            program(["tokenizer", "--text", DATA / "text.txt", "--text", DATA / "chat.jsonl", "--vocabulary", 400,
                     "--to", folder / kind])
            shutil.copy(DATA / kind / "config.json", folder / kind)

    def train(self, name, file, model, device, settings=()):
        output = self.folder / f"{name}-{device}"
        program(["train", DATA / file], [f"device={device}", f"model.path={model}", f"run.output={output}", *BRIEF,
                                         *settings])
        return logged(output)

    def resumed(self, device):
        """Six steps on one device; the rest on the other, from its checkpoint."""
        output, other = self.folder / f"resumed-{device}", {"cuda": "cpu", "cpu": "cuda"}[device]
        common = [f"model.path={self.folder / 'dense'}", f"run.output={output}", "save.every=6", *BRIEF]
        program(["train", DATA / "pretrain.yaml"], [f"device={other}", *common, "run.steps=6",
                                                   "optimizer.schedule=constant"])
        program(["train", DATA / "pretrain.yaml"], [f"device={device}", *common, "optimizer.schedule=constant"])
        return logged(output)[-6:]

    def grads(self, kind, device, settings):
        rows = self.folder / "rows.jsonl"
        rows.write_text("".join(json.dumps({"input_ids": ids, "labels": ids}) + "\n" for ids in
                                ([(7 * row + 13 * i) % 400 for i in range(20 + row)] for row in range(6))))
        model = self.folder / f"pretrained-{kind}-cpu" / "final"
        words = ["grads", "--model", model, "--rows", rows, "--out", self.folder / f"{device}.safetensors"]
        return [json.loads(program(words, [f"device={device}", *settings]))]

    def pictures(self, device, name="pictures", rows=None, settings=()):
        """A few steps of the example whose records have images, over so many rows; None: all."""
        drawn, output = self.folder / "drawn", self.folder / f"{name}-{device}"
        if not drawn.exists():
            subprocess.run([sys.executable, ROOT / "examples/pictures/draw.py", drawn], check=True)
        data = drawn / f"{name}.jsonl"
        data.write_text("".join((drawn / "train.jsonl").read_text().splitlines(keepends=True)[:rows]))
        program(["train", ROOT / "examples/pictures/run.yaml"],
                [f"device={device}", f"model.path={ROOT / 'examples/pictures'}", f"data.train=[{data}]", "data.valid=[]",
                 f"run.output={output}", *BRIEF, *settings])
        return logged(output)

    def kept_features(self, device):
        """The same images in every epoch of three steps, of which only the first runs the tower."""
        log = self.pictures(device, "kept", 12, ["run.global_batch=4", "data.packing=false", "tuning.freeze=[vision, aligner]", "memory.vision_features_mb=4"])
        if [line["kept_images"] for line in log] != [0] * 3 + [4] * (STEPS - 3):
            raise Failed(f"kept_images are {[line['kept_images'] for line in log]}")
        return log

    def described(self, device):
        """What the model that the cpu trained says of pictures that it has not seen."""
        rows = (self.folder / "drawn" / "unseen.jsonl").read_text().splitlines()[:8]
        asked = [{**row, "messages": row["messages"][:-1]} for row in map(json.loads, rows)]
        file = self.folder / "drawn" / "asked.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in asked))
        return program(["generate", "--model", self.folder / "pictures-cpu" / "final", "--messages", file, "--max-new-tokens", 4],
                       [f"device={device}", "model.dtype=fp32"])

    def generated(self, device):
        model, adapter = self.folder / "pretrained-dense-cpu" / "final", self.folder / "chat-cpu" / "final"
        words = ["generate", "--model", model, "--adapters", adapter, "--messages", DATA / "questions.json",
                 "--max-new-tokens", 4, "--batch", 25]
        return program(words, [f"device={device}", "model.dtype=fp32"])


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        runs = Runs(pathlib.Path(scratch))
        for kind, settings in (("dense", []), ("moe", ["experts.balance_coefficient=0.01"])):
            failed += check_case(f"pretraining, {kind}", LIMITS, lambda device: runs.train(
                f"pretrained-{kind}", "pretrain.yaml", runs.folder / kind, device, settings))
        failed += check_case("LoRA with dropout", LIMITS, lambda device: runs.train(
            "chat", "chat.yaml", runs.folder / "pretrained-dense-cpu/final", device, ["tuning.dropout=0.1"]))
        for name, (kind, settings) in PACKED.items():
            failed += check_case(f"LoRA over {name}", LIMITS, lambda device: runs.train(
                f"packed-{name.replace(', ', '-')}", "chat.yaml", runs.folder / f"pretrained-{kind}-cpu/final", device, settings))
        failed += check_case("pictures", LIMITS, runs.pictures)
        failed += check_case("pictures, features kept", LIMITS, runs.kept_features)
        failed += check_case("resumed from the other device", LIMITS, runs.resumed)
        for name, settings in ROUTERS.items():
            kind = "dense" if "hidden" in name else "moe"
            failed += check_case(f"grads, {name}", GRADS_LIMITS, lambda device: runs.grads(kind, device, settings))
        for what, on in {"generate with an adapter": runs.generated, "generate with images": runs.described}.items():
            same = on("cuda") == on("cpu")
            print(f"{'ok' if same else 'FAILED'}: {what}", flush=True)
            failed += not same
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
