"""Bad input to `trireme grads`, alone and under mpirun: status 2, one line on stderr that says what and where, nothing
on stdout, nothing written."""
import concurrent.futures
import json
import math
import re
import shutil
from collections import namedtuple

import pytest
from safetensors.torch import load_file, save_file

from program import failure_text, run
from tiny_models import VOCABULARY, config_of, make_rows, write_model, write_rows

# words: what the line must say; settings: --set; model: changes to the config; edit: what is done to the inputs first
Refusal = namedtuple("Refusal", "name words settings model edit", defaults=[[], {}, None])


def edit_config(**changes):
    def edit(folder):
        path = folder / "model" / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return edit


def edit_weights(change):
    def edit(folder):
        path = folder / "model" / "model.safetensors"
        weights = load_file(path)
        change(weights)
        save_file(weights, path, metadata={"format": "pt"})
    return edit


def edit_rows(text):
    def edit(folder):
        path = folder / "rows.jsonl"
        path.write_text(path.read_text().splitlines()[0] + f"\n{text}\n")
    return edit


def layout(tensor=1, pipeline=1, **more):
    return [f"parallel.{key}={value}" for key, value in dict(tensor=tensor, pipeline=pipeline, **more).items()]


# A soft cap, in a config that is otherwise the written model's.
GEMMA2 = dict(model_type="gemma2", hidden_act="gelu_pytorch_tanh", mlp_bias=None)
NORM = "model.layers.1.input_layernorm.weight"
REFUSALS = [
    Refusal("3 key-value heads on tp 2", ["3 key-value heads", "parallel.tensor = 2"], layout(tensor=2),
            dict(num_attention_heads=6, num_key_value_heads=3, hidden_size=48)),
    Refusal("3 heads on tp 2", ["3 ", "heads", "parallel.tensor = 2"], layout(tensor=2),
            dict(num_attention_heads=3, num_key_value_heads=3, hidden_size=48)),
    Refusal("soft caps on npu", ["device npu", "gemma2", "attn_logit_softcapping = 50"], ["device=npu"], {},
            edit_config(**GEMMA2)),
    Refusal("odd ffn on tp 2", ["95", "2"], layout(tensor=2), dict(intermediate_size=95)),
    Refusal("heads and key-value heads", ["num_attention_heads = 4", "num_key_value_heads = 3"], [], {},
            edit_config(num_key_value_heads=3)),
    Refusal("ranks that do not divide", ["world", "tensor 3"], layout(tensor=3)),
    Refusal("more stages than layers", ["6", "5", "stages", "layers"],
            layout(pipeline=2, schedule="interleaved", virtual_stages=3)),
    Refusal("more stages than layers in a V", ["4", "3", "stages", "layers"],
            layout(pipeline=2, schedule="dualpipev"), dict(num_hidden_layers=3)),
    Refusal("1f1b with virtual stages", ["1f1b", "virtual_stages = 2"], layout(pipeline=2, virtual_stages=2)),
    Refusal("1f1b with virtual stages on one stage", ["1f1b", "virtual_stages = 2"], layout(virtual_stages=2)),
    Refusal("interleaved without virtual stages", ["interleaved", "virtual_stages = 1"],
            layout(pipeline=2, schedule="interleaved")),
    Refusal("zero_bubble with virtual stages", ["zero_bubble", "virtual_stages = 2"],
            layout(pipeline=2, schedule="zero_bubble", virtual_stages=2)),
    Refusal("dualpipev with three virtual stages", ["dualpipev", "virtual_stages = 3"],
            layout(pipeline=2, schedule="dualpipev", virtual_stages=3)),
    Refusal("unknown schedule", ["gpipe", "1f1b"], ["parallel.schedule=gpipe"]),
    Refusal("unknown key", ["tensro", "tensor"], ["parallel.tensro=2"]),
    Refusal("no number", ["parallel.tensor", "two"], ["parallel.tensor=two"]),
    Refusal("unknown zero level", ["zero", "4", "3"], ["parallel.zero=4"]),
    Refusal("unknown family", ["model_type", "gpt99", "llama", "qwen3"], [], {}, edit_config(model_type="gpt99")),
    Refusal("missing tensor", [NORM], [], {}, edit_weights(lambda weights: weights.pop(NORM))),
    Refusal("tensor of another shape", [NORM, "63", "64"], [], {},
            edit_weights(lambda weights: weights.update({NORM: weights[NORM][:63].clone()}))),
    Refusal("weights that are not finite", [NORM, "finite"], [], {},
            edit_weights(lambda weights: weights[NORM].fill_(math.nan))),
    Refusal("token beyond the vocabulary", ["rows.jsonl:2", f"{VOCABULARY}", "input_ids"], [], {},
            edit_rows(f'{{"input_ids": [1, {VOCABULARY}], "labels": [1, 2]}}')),
    Refusal("token below zero", ["rows.jsonl:2", "-1", "input_ids"], [], {},
            edit_rows('{"input_ids": [1, -1], "labels": [1, 2]}')),
    Refusal("label beyond the vocabulary", ["rows.jsonl:2", "5000", "labels"], [], {},
            edit_rows('{"input_ids": [1, 2], "labels": [1, 5000]}')),
    Refusal("empty row", ["rows.jsonl:2", "empty"], [], {}, edit_rows('{"input_ids": [], "labels": []}')),
    Refusal("fewer labels than tokens", ["rows.jsonl:2", "3 ", "2 "], [], {},
            edit_rows('{"input_ids": [1, 2, 3], "labels": [1, 2]}')),
    Refusal("no JSON", ["rows.jsonl:2", "JSON"], [], {}, edit_rows("input_ids: 1")),
    Refusal("no rows", ["rows.jsonl", "no rows"], [], {}, lambda folder: (folder / "rows.jsonl").write_text("")),
    Refusal("no model", ["model", "config.json"], [], {}, lambda folder: shutil.rmtree(folder / "model")),
]


def prepare(folder, refusal):
    write_model(config_of("llama", **refusal.model), folder / "model")
    write_rows(folder / "rows.jsonl", make_rows(2))
    if refusal.edit:
        refusal.edit(folder)


def needs_two_ranks(refusal):
    return bool({"parallel.tensor=2", "parallel.pipeline=2"} & set(refusal.settings))


def faults(folder, refusal, ranks):
    """What is wrong with how the program refuses; nothing: an empty list."""
    before = sorted(folder.rglob("*"))
    words = ["grads", "--model", folder / "model", "--rows", folder / "rows.jsonl", "--out", folder / "out.safetensors"]
    result = run(ranks, words, refusal.settings)
    line = result.stderr.replace(str(folder), "")  # a path's digits are no words
    # One rank alone cannot hold a layout of two: that may be refused first, as plainly.
    too_small = ranks is None and needs_two_ranks(refusal) and "world 1 " in line
    checks = {f"status {result.returncode}": result.returncode == 2,
              "not one line on stderr": len(result.stderr.splitlines()) == 1,
              "something on stdout": result.stdout == "",
              "something written": sorted(folder.rglob("*")) == before,
              f"the line lacks one of {refusal.words}": too_small or all(word in line for word in refusal.words)}
    return [fault for fault, good in checks.items() if not good], result


def try_both(folder, refusal):
    """Faults and result, alone and on two ranks."""
    return {ranks: faults(folder, refusal, ranks) for ranks in (None, 2)}


@pytest.fixture(scope="module")
def tried(folder, selected):
    """By name; two at a time."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        running = {}
        for number, refusal in enumerate({refusal.name: refusal for refusal in selected(test_refused, "refusal")}.values()):
            (folder / str(number)).mkdir()
            prepare(folder / str(number), refusal)
            running[refusal.name] = pool.submit(try_both, folder / str(number), refusal)
        yield running


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
@pytest.mark.parametrize("ranks", [None, 2], ids=["alone", "2 ranks"])
def test_refused(refusal, ranks, tried, folder, record_property):
    found, result = tried[refusal.name].result()[ranks]
    record_property("says", re.sub(rf"{folder}/\d+/", "", result.stderr.strip()))
    assert not found, f"{'; '.join(found)}\n{failure_text(result)}"
