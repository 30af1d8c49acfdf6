"""Runs of models that see: the parts that have rates of their own, against torch's AdamW; adapters that runs leave, against
PEFT. And files: every spelling of names, configs and experts, read and written again byte for byte."""
import functools
import json
import shutil

import peft
import pytest
import torch
from safetensors.torch import load_file, save_file

import seeing_adapters
import seeing_models
import seeing_runs
import steps
from gradients import assert_within, relative
from program import failure_text, run, run_many, run_well, words_of

LAYERS = 3
RATES = dict(vision=0.1, aligner=0.5)
EVERYWHERE = ["tuning.kind=lora", "tuning.rank=3", "tuning.alpha=24", "tuning.dropout=0", "run.steps=3", "optimizer.lr=0.03"]
FROZEN, KEPT = ["tuning.kind=full", "tuning.freeze=[vision, aligner]"], ["memory.vision_features_mb=1"]
# Runs. name: family, ranks, settings
RUNS = {
    "rates": ("qwen2_5_vl", 1, ["tuning.kind=full", "optimizer.lr_by_name=[vision=0.1, aligner=0.5]"]),
    "rates of taps": ("qwen3_vl", 2, ["tuning.kind=full", "parallel.tensor=2", "parallel.zero=1",
                                      "optimizer.lr_by_name=[vision=0.1, aligner=0.5]"]),
    "default": ("qwen2_5_vl", 1, [*EVERYWHERE]),
    "everywhere": ("qwen2_5_vl", 1, [*EVERYWHERE, "tuning.targets=[language, vision, aligner]"]),
    "tiles": ("internvl", 1, [*EVERYWHERE, "tuning.targets=[language, vision, aligner]"]),
    "aligner": ("qwen3_vl", 2, [*EVERYWHERE, "tuning.targets=[aligner]", "parallel.pipeline=2"]),
    "not the tower": ("qwen3_vl_moe", 2, [*EVERYWHERE, "tuning.targets=[all-linear, 're:.*visual.*(linear_fc1|qkv)']",
                                          "tuning.freeze=[vision]", "parallel.expert=2"]),
    "tower in full": ("qwen2_5_vl", 1, [*EVERYWHERE, "tuning.modules_to_save=[vision, aligner]"]),
    "frozen": ("qwen2_5_vl", 1, [*FROZEN]),
    "frozen, kept": ("qwen2_5_vl", 1, [*FROZEN, *KEPT, "run.micro_batch=2"]),
    "frozen with taps": ("qwen3_vl", 2, [*FROZEN, "parallel.tensor=2"]),
    "frozen with taps, kept": ("qwen3_vl", 2, [*FROZEN, *KEPT, "parallel.tensor=2"]),
    "frozen with taps, kept by ranks": ("qwen3_vl", 2, [*FROZEN, *KEPT, "parallel.zero=3"]),
    "frozen with taps, kept in a pipeline": ("qwen3_vl", 2, [*FROZEN, *KEPT, "parallel.pipeline=2"]),
}
# Modules of the adapters that runs leave, as PEFT names them.
LANGUAGE = r".*language_model\.layers\.\d+\.(self_attn|mlp)\.(q|k|v|o|gate|up|down)_proj"
MODULES = {
    "default": LANGUAGE,
    "everywhere": LANGUAGE + r"|.*visual\.(blocks\.\d+\.(attn\.(qkv|proj)|mlp\.(gate|up|down)_proj)|merger\.mlp\.[02])",
    "tower in full": LANGUAGE,
    "tiles": LANGUAGE + r"|.*vision_tower\.encoder\.layer\.\d+\.(attention\.([qkv]_proj|projection_layer)|mlp\.fc[12])"
             r"|.*multi_modal_projector\.linear_[12]",
    "aligner": r".*visual\.(merger|deepstack_merger_list\.\d)\.linear_fc[12]",
    "not the tower": LANGUAGE + r"|.*visual\.(merger|deepstack_merger_list\.\d)\.linear_fc1",
}


@pytest.fixture(scope="module")
def models(folder):
    """By family: the model's directory, its data's, and the rows."""
    @functools.cache
    def make(family):
        model, data = folder / family, folder / f"{family}-data"
        data.mkdir()
        seeing_models.write_model(seeing_models.config_of(family, LAYERS), model)
        return model, data, seeing_runs.write_data(model, data)
    return make


@pytest.fixture(scope="module")
def runs(models, folder):
    """Outputs by name; one launch for each number of ranks."""
    outputs = {name: folder / name.replace(" ", "-") for name in RUNS}
    for ranks in (1, 2):
        chosen = {name: one for name, one in RUNS.items() if one[1] == ranks}
        result = run_many(ranks if ranks > 1 else None, [
            seeing_runs.train_words(*models(family)[:2], outputs[name], settings) for name, (family, _, settings) in chosen.items()])
        missing = [name for name in chosen if not (outputs[name] / "final").exists()]
        assert not missing, f"{missing}: {failure_text(result)}"
    return outputs


def part_of(name):
    if "merger" in name:
        return "aligner"
    return "vision" if ".visual." in name else "language"


def adamw_by_part(model):
    groups = []
    for decayed in (True, False):
        for part in ("language", "vision", "aligner"):
            chosen = [p for name, p in model.named_parameters() if part_of(name) == part and (p.dim() > 1) == decayed]
            groups.append({"params": chosen, "weight_decay": steps.ADAMW["weight_decay"] if decayed else 0.0,
                           "lr": steps.COSINE["lr"] * RATES.get(part, 1)})
    return torch.optim.AdamW(groups, betas=(steps.ADAMW["beta1"], steps.ADAMW["beta2"]), eps=steps.ADAMW["eps"])


@pytest.mark.parametrize("name", ["rates", "rates of taps"])
def test_rates_by_part(name, runs, models, record_errors):
    model, _, rows = models(RUNS[name][0])
    peer = seeing_adapters.load_base(model)
    rows = [row for row in rows if any(label != -100 for label in row["labels"][1:])]
    wanted = steps.reference(peer, rows, steps.COSINE, adamw_by_part(peer), seeing_models.loss_parts)
    steps.assert_curve(seeing_runs.read_log(runs[name]), wanted, steps.LIMITS, record_errors)


@pytest.mark.parametrize("name", MODULES)
def test_peft_reads_final(name, runs, models, folder, record_errors):
    """Under PEFT's names, all of them; with the program's loss."""
    model, data, rows = models(RUNS[name][0])
    base = seeing_adapters.load_base(model)
    saved = [module for module, one in base.named_modules() if ".visual." in module and one._parameters] if name == "tower in full" else None
    fresh = peft.get_peft_model(base, peft.LoraConfig(r=3, target_modules=MODULES[name], modules_to_save=saved))
    found = set(load_file(runs[name] / "final/adapter_model.safetensors"))
    assert found == set(peft.get_peft_model_state_dict(fresh)), sorted(found ^ set(peft.get_peft_model_state_dict(fresh)))[:6]
    tuned = seeing_adapters.load_tuned(model, runs[name] / "final")
    line = json.loads(run_well(None, ["grads", "--model", model, "--adapters", runs[name] / "final", "--rows",
                                      data / "rows.jsonl", "--out", folder / "final.safetensors"]).stdout)
    wanted, before = (seeing_adapters.loss_of(one, rows) for one in (tuned, seeing_adapters.load_base(model)))
    errors = {"loss": relative(line["loss"], wanted)}
    record_errors(errors)
    assert_within(errors, {"loss": 1e-5})
    assert relative(wanted, before) > 1e-3, "the run moved the loss so little that a wrong adapter would not show"


@pytest.mark.parametrize("name", [name for name in RUNS if ", kept" in name])
def test_kept_features(name, runs, record_errors):
    """The tower's features of the first epoch serve all later ones, in which nothing else changes."""
    plain, kept = (seeing_runs.read_log(runs[one]) for one in (name.split(",")[0], name))
    errors = {field: max(relative(a[field], b[field]) for a, b in zip(kept, plain, strict=True)) for field in ("loss", "grad_norm")}
    record_errors(errors)
    assert_within(errors, {"loss": 1e-6, "grad_norm": 1e-5})
    steps_of_epoch = steps.EPOCH // steps.BATCH
    assert [line["kept_images"] > 0 for line in kept] == [step >= steps_of_epoch for step in range(steps.STEPS)], kept


@pytest.mark.parametrize("family, settings, said", [("qwen2_5_vl", ["tuning.freeze=[vision]"], "vision.merger is trained"),
                                                    ("qwen3_vl", [], "vision.patch is trained"), (None, [], "has not")])
def test_features_that_change_are_not_kept(family, settings, said, models, folder):
    output, settings = folder / "refused", ["tuning.kind=full", *settings, *KEPT]
    words = seeing_runs.train_words(*models(family)[:2], output, settings) if family else [
        "train", "examples/chat/run.yaml", *words_of([f"run.output={output}", *settings])]
    result = run(None, words)
    assert result.returncode == 2 and said in result.stderr, failure_text(result)


def tensors_of(directory):
    return {name: tensor for file in sorted(directory.glob("*.safetensors")) for name, tensor in load_file(file).items()}


def newer_names(tensors):
    return {(f"model.{name}" if name.startswith("visual.") else name.replace("model.", "model.language_model.", 1)): tensor
            for name, tensor in tensors.items()}


def newer_tiled(tensors):
    """InternVL's modules as they are called in memory."""
    def newer(name):
        if name.startswith("language_model.lm_head"):
            return name.removeprefix("language_model.")
        return "model." + name.replace("language_model.model.", "language_model.")
    return {newer(name): tensor for name, tensor in tensors.items()}


def published_experts(tensors):
    return {name: tensor.transpose(1, 2).contiguous() if ".experts." in name else tensor for name, tensor in tensors.items()}


def flat(config):
    """As files were before transformers 4.52: keys of the text model at the root."""
    text = config.pop("text_config")
    rope = text.pop("rope_parameters")
    text |= dict(rope_theta=rope["rope_theta"], rope_scaling=dict(type="mrope", mrope_section=rope["mrope_section"]))
    return {**text, **config}


def same(value):
    return value


# name: family, what becomes of the tensors and of the config that transformers writes
FILES = {
    "qwen2_5_vl": ("qwen2_5_vl", same, same),
    "qwen2_5_vl flat": ("qwen2_5_vl", same, flat),
    "qwen2_5_vl with newer names": ("qwen2_5_vl", newer_names, same),
    "internvl": ("internvl", same, same),
    "internvl with newer names": ("internvl", newer_tiled, same),
    "qwen3_vl": ("qwen3_vl", same, same),
    "qwen3_vl_moe": ("qwen3_vl_moe", same, same),
    "qwen3_vl_moe as published": ("qwen3_vl_moe", published_experts, same),
}


@pytest.fixture(scope="module")
def files(models, folder):
    """By name: the directory, that as a checkpoint, as a Hugging Face directory again, what no step of a run makes of it, and
    the line of its gradients; one launch."""
    paths, commands = {}, []
    for name, (family, tensors, config) in FILES.items():
        model, data, _ = models(family)
        source, stored, back, left = (folder / f"{part} {name}" for part in ("files", "stored", "back", "left"))
        shutil.copytree(model, source)
        save_file(tensors(load_file(model / "model.safetensors")), source / "model.safetensors", metadata={"format": "pt"})
        (source / "config.json").write_text(json.dumps(config(json.loads((model / "config.json").read_text()))))
        paths[name] = source, back, left / "final"
        commands += [["convert", "--from", source, "--to", stored],
                     ["convert", "--from", stored, "--to", back, "--shard-bytes", 200000],
                     seeing_runs.train_words(source, data, left, [
                         "tuning.kind=full", "run.steps=1", "optimizer.schedule=constant", "optimizer.lr=0", "optimizer.min_lr=0"])]
    result = run_many(None, commands)
    assert result.returncode == 0, failure_text(result)
    return paths


@pytest.mark.parametrize("name", FILES)
def test_files_are_written_as_they_were_read(name, files, models):
    """A run writes stacked experts as published files have them, whatever it read."""
    source, back, left = files[name]
    read, model = tensors_of(source), models(FILES[name][0])[0]
    trained = published_experts(read) if name == "qwen3_vl_moe" else read
    assert (back / "model.safetensors.index.json").is_file()
    for directory, wanted in ((back, read), (left, trained)):
        found = tensors_of(directory)
        assert found.keys() == wanted.keys(), f"{directory}: {sorted(found.keys() ^ wanted.keys())[:6]}"
        differing = [key for key in wanted if not torch.equal(found[key], wanted[key])]
        assert not differing, f"{directory}: {differing[:6]}"
        assert json.loads((directory / "config.json").read_text()) == json.loads((source / "config.json").read_text())
    row = models(FILES[name][0])[2][1]
    logits = [seeing_adapters.logits_of(seeing_adapters.load_base(one), row) for one in (model, back, left)]
    assert torch.equal(logits[0], logits[1]) and torch.equal(logits[0], logits[2])
