"""LoRA of models that see, against PEFT: gradients of adapters of the language model, the tower and the aligner, from adapters
that PEFT wrote, under every kind of layout; the same adapters under the names of older versions; merged models."""
import functools
import json
import shutil

import pytest
from safetensors.torch import load_file, save_file

import seeing_adapters
from gradients import assert_equals, assert_within
from program import Launches, failure_text, run, run_grads, run_well, words_of
from seeing_adapters import ADAPTERS, load_base, load_tuned, logits_of

TENSOR, STAGES, WHOLE = "parallel.tensor=2", "parallel.pipeline=2", "parallel.sequence=false"
FULL, SELECTIVE, ZERO3 = "memory.recompute=full", "memory.recompute=selective", "parallel.zero=3"
# adapter, ranks, settings
LAYOUTS = [
    *((adapter, 1, []) for adapter in ADAPTERS),
    ("all of qwen2_5_vl", 1, [FULL, "run.micro_batch=3"]),
    ("all of qwen2_5_vl", 2, [TENSOR, SELECTIVE]),
    ("all of qwen2_5_vl", 2, [STAGES]),
    ("all of qwen3_vl", 2, [TENSOR, WHOLE]),
    ("all of qwen3_vl", 2, [STAGES, "parallel.schedule=zero_bubble", FULL]),
    ("all of qwen3_vl", 2, ["parallel.context=2", ZERO3]),
    ("all of qwen3_vl_moe", 2, [TENSOR, "parallel.expert=2"]),
    ("tower", 2, [TENSOR, ZERO3]),
    ("tower", 2, [STAGES]),
    ("aligner", 2, [TENSOR]),
    ("aligner", 2, [ZERO3]),
]


@pytest.fixture(scope="module")
def adapted(folder):
    """By name, made when first asked for."""
    return functools.cache(lambda name: seeing_adapters.make_adapted(folder / name.replace(" ", "-"), *ADAPTERS[name]))


def grads_words(one, adapter, out):
    return ["grads", "--model", one.model, "--adapters", adapter, "--rows", one.rows, "--out", out]


@pytest.fixture(scope="module")
def outcomes(adapted, folder):
    def launch(ranks, cases):
        commands = []
        for number, (name, _, settings) in enumerate(cases):
            one = adapted(name)
            commands.append([*grads_words(one, one.adapter, folder / f"{ranks}-{number}.safetensors"), *words_of(settings)])
        return run_grads(ranks if ranks > 1 else None, commands)
    return Launches(LAYOUTS, lambda case: case[1], launch)


@pytest.mark.parametrize("case", LAYOUTS, ids=lambda case: " ".join([case[0], str(case[1]), *case[2]]))
def test_gradients(case, outcomes, adapted, record_errors):
    assert_equals(outcomes.of(case), adapted(case[0]).reference, record_errors)


def older(name):
    """As transformers called modules before 4.52."""
    return name.replace("model.model.language_model.", "model.model.").replace("model.model.visual.", "model.visual.")


def test_older_names(adapted, folder, record_errors):
    one = adapted("all of qwen2_5_vl")
    shutil.copytree(one.adapter, folder / "older")
    path = folder / "older" / "adapter_model.safetensors"
    tensors = load_file(path)
    assert all(older(key) != key for key in tensors)
    save_file({older(key): value for key, value in tensors.items()}, path, metadata={"format": "pt"})
    outcome = run_grads(None, [grads_words(one, path.parent, folder / "older.safetensors")])[0]
    assert_equals(outcome, one.reference, record_errors)


def test_rows_cannot_have_towers_of_their_own(adapted, folder):
    """Served beside others an adapter belongs to rows of tokens; in a tower there are none."""
    one = adapted("all of qwen2_5_vl")
    shutil.copytree("examples/chat", folder / "served", ignore=shutil.ignore_patterns("*.jsonl"))
    shutil.copytree(one.model, folder / "served", dirs_exist_ok=True)
    result = run(None, ["serve", "--model", folder / "served", "--adapters", f"a={one.adapter}", "--port", 0])
    assert result.returncode == 2 and "vision tower" in result.stderr, failure_text(result)


@pytest.mark.parametrize("name", ["all of qwen2_5_vl", "all of qwen3_vl", "language"])
def test_merge(name, adapted, folder, record_errors):
    """What transformers loads of it gives the logits of PEFT's own merge."""
    one, target, row = adapted(name), folder / f"merged-{name}", seeing_adapters.ROWS[1]
    run_well(None, ["merge", "--model", one.model, "--adapters", one.adapter, "--to", target])
    wanted, before = logits_of(load_tuned(one.model, one.adapter).merge_and_unload(), row), logits_of(load_base(one.model), row)
    found = logits_of(load_base(target), row)
    errors = {"logits": (found - wanted).abs().max().item()}
    record_errors(errors)
    assert_within(errors, {"logits": 5e-5})
    assert (wanted - before).abs().max() > 1e-2, "a merge that did nothing would not show"


@pytest.mark.parametrize("name", ["tower", "aligner"])
def test_other_commands_take_adapters_of_towers(name, adapted, folder):
    """Without dropout, whatever tuning.dropout is by default: as the merged model. Training with dropout refuses."""
    one, target, texts = adapted(name), folder / f"whole-{name}", folder / f"{name}.jsonl"
    run_well(None, ["merge", "--model", one.model, "--adapters", one.adapter, "--to", target])
    texts.write_text(json.dumps({"input_ids": [5, 6, 7, 8], "labels": [5, 6, 7, 8]}) + "\n")
    with_adapters, merged = ["--model", one.model, "--adapters", one.adapter], ["--model", target]
    outs = [[run_well(None, [*words, *model], ["model.dtype=fp32"]).stdout for model in (with_adapters, merged)]
            for words in (["generate", "--rows", one.rows, "--max-new-tokens", 4], ["evaluate", "--data", texts])]
    tokens = [[json.loads(line)["output_ids"] for line in out.splitlines()] for out in outs[0]]
    assert tokens[0] == tokens[1] and len(tokens[0]) > 1
    losses = [json.loads(out)["loss"] for out in outs[1]]
    assert abs(losses[0] - losses[1]) < 1e-5, losses
    result = run(None, ["train", "--dry-run", "examples/bytes/run.yaml"], [
        f"model.path={one.model}", "tuning.kind=lora", f"tuning.adapters={one.adapter}", "tuning.dropout=0.1", "stage=sft",
        f"data.train=[{texts}]", "data.max_length=64", f"run.output={folder / 'never'}"])
    assert result.returncode == 2 and "tuning.dropout = 0.1" in result.stderr and "vision tower" in result.stderr, failure_text(result)
