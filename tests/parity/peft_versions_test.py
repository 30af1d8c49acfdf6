"""An experts' adapter under two pairs of transformers and PEFT. `final/` loads whole with transformers 5; the other form,
which the run's last words name with its command, loads whole with transformers 4. In either, the loss is that of the
merged model, and every tensor of the file has found its place."""
import json
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest

import tiny_models
from program import run_well

# version of transformers: its Python, and the form of the adapter for it
VERSIONS = {"5": (".venv-parity/bin/python", "run/final"), "4": (".venv-parity-transformers-4/bin/python", "apart")}
FAMILIES = ["qwen3_moe", "mixtral"]


def ask(python, questions):
    loader = pathlib.Path(__file__).with_name("peft_load.py")
    result = subprocess.run([python, "-W", "ignore", loader, json.dumps(questions)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-1500:]
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


def write_run(folder, model):
    sections = {"device": "cpu", "model": {"path": str(model), "dtype": "fp32"},
                "tuning": {"kind": "lora", "rank": 4, "alpha": 16, "dropout": 0.0},
                "data": {"train": [str(folder / "rows.jsonl")], "packing": False, "max_length": 64},
                "optimizer": {"lr": 0.05, "schedule": "constant"},
                "run": {"steps": 3, "global_batch": 4, "output": str(folder / "run")}, "save": {"every": 0}}
    (folder / "run.yaml").write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in sections.items()))


def write_model(family, folder):
    """Readable by both versions: transformers 4 looks for some values elsewhere."""
    changes = {"mlp_only_layers": []} if family == "qwen3_moe" else {}
    made = tiny_models.config_of(family, num_hidden_layers=2, **changes)
    tiny_models.write_model(made, folder)
    config = json.loads((folder / "config.json").read_text())
    config["rope_theta"] = config["rope_parameters"]["rope_theta"]
    if family == "qwen3_moe":
        config["num_experts"] = made.num_experts
    (folder / "config.json").write_text(json.dumps(config))


@pytest.fixture(scope="module")
def said(folder):
    """By family what the run printed. Trains, merges, and writes the other form by the command that the run names."""
    texts = {}
    for family in FAMILIES:
        place = folder / family
        place.mkdir()
        write_model(family, place / "model")
        tiny_models.write_rows(place / "rows.jsonl", tiny_models.make_rows(6, shortest=8))
        write_run(place, place / "model")
        trained = run_well(None, ["train", place / "run.yaml"])
        run_well(None, ["merge", "--model", place / "model", "--adapters", place / "run/final", "--to", place / "merged"])
        texts[family] = trained.stdout + trained.stderr
        command = re.search(r"^ *\S+ (convert .* --experts-apart)", texts[family], re.M)
        assert command, f"no command for the other versions: {texts[family]}"
        words = shlex.split(command[1])
        run_well(None, words)
        shutil.move(words[words.index("--to") + 1], place / "apart")
    return texts


@pytest.fixture(scope="module")
def answers(said, folder):
    """By version and family: the base, the merged model, and the base with the form of the adapter for this version."""
    found = {}
    for version, (python, form) in VERSIONS.items():
        lines = iter(ask(python, [
            (str(folder / family / model), str(folder / family / adapter) if adapter else "",
             str(folder / family / "rows.jsonl"))
            for family in FAMILIES for model, adapter in (("model", ""), ("merged", ""), ("model", form))]))
        found |= {(version, family): (next(lines), next(lines), next(lines)) for family in FAMILIES}
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_run_says_which_versions_read_final(family, said):
    assert "as PEFT reads it with transformers 5" in said[family], said[family]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("version", VERSIONS)
def test_adapter_loads(version, family, answers, record_errors, record_property):
    plain, merged, found = answers[version, family]
    record_property("transformers", f"{found['transformers']}, PEFT {found['peft']}, {found['loaded']} of {found['in_file']} adapters")
    assert found["loaded"] == found["there"] == found["in_file"], found
    errors, effect = ({"loss": abs(found["loss"] - other["loss"]) / other["loss"]} for other in (merged, plain))
    record_errors(errors)
    assert errors["loss"] < 1e-5, f"loss {errors['loss']:.2e} from the merged model's, tolerance 1e-5"
    assert effect["loss"] > 1e-3, f"the adapter moves the loss by {effect['loss']:.1e} only: a wrong one would not show"
