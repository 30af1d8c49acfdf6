"""No key of a config.json is silently ignored: each key that transformers writes for a family is changed, and the program
either computes transformers' loss of the changed model, or refuses it. Also keys that no family knows."""
import json
import shutil

import pytest
import torch
import transformers

from program import failure_text, run_many
from tiny_models import FAMILIES, config_of, forget_lengths, make_rows, write_model, write_rows

OPTIONS = {"full"}
IN_CI = ["llama3", "mixtral", "qwen3_moe", "deepseek_v3", "phi3_long", "llama_dynamic", "baichuan"]  # the others with --full
TOLERANCE = 1e-5
# Sizes of weights: both then find weights of other shapes, and layers that are not there.
NOT_CHANGED = {"model_type", "architectures", "transformers_version", "dtype", "torch_dtype", "vocab_size", "hidden_size",
               "num_hidden_layers",
               # With a head of its own in the file, which should not be there: transformers 5 keeps both, we tie them.
               "tie_word_embeddings"}
ADDED = {"attention_dropout": 0.5, "hidden_dropout": 0.5, "logit_scale": 2.0, "final_logit_softcapping": 1.0,
         "embedding_multiplier": 3.0, "quantization_config": {"quant_method": "gptq", "bits": 4}, "partial_rotary_factor": 0.5,
         "sliding_window": 3, "use_sliding_window": True, "_comment": "of no effect"}


def other_values(key, value):
    """What the key could say instead."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, 2 * value] if value else [1]
    if isinstance(value, float):
        return [value * 1.5 + 0.25]
    if isinstance(value, str):
        return ["gelu" if key == "hidden_act" else "another"]
    if isinstance(value, list):
        return [[0]] if all(isinstance(item, int) for item in value) else [["sliding_attention"] * len(value)]
    return [2] if value is None else []


def changes(config):
    """Pairs of a name and the changed config."""
    for key, value in config.items():
        if key in NOT_CHANGED:
            continue
        if isinstance(value, dict):
            for inner, number in value.items():
                for other in other_values(inner, number):
                    yield f"{key}.{inner}={other}", {**config, key: {**value, inner: other}}
        for other in other_values(key, value):
            yield f"{key}={other}", {**config, key: other}
    for key, value in ADDED.items():
        yield f"+{key}={value}", {**config, key: value}


def loss_of_transformers(folder, rows):
    """In training, where dropout counts; None where transformers itself does not load the model whole."""
    try:
        torch.manual_seed(1)
        model, found = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
        if any(found.get(kind) for kind in ("missing_keys", "mismatched_keys", "unexpected_keys", "error_msgs")):
            return None
        forget_lengths(model).train()
        losses = [(model(input_ids=torch.tensor([row["input_ids"]]), labels=torch.tensor([row["labels"]])).loss.item(),
                   sum(label != -100 for label in row["labels"][1:])) for row in rows]
    except Exception:  # it refuses in many ways
        return None
    return sum(loss * count for loss, count in losses) / sum(count for _, count in losses)


@pytest.fixture(scope="module")
def rows():
    return [row for row in make_rows(4, shortest=12) if any(label != -100 for label in row["labels"][1:])]


@pytest.mark.parametrize("family", FAMILIES)
def test_no_key_is_ignored(family, folder, rows, request, record_property):
    if family not in IN_CI and not request.config.getoption("full"):
        pytest.skip("a covering set of families; the others with --full")
    base = folder / family
    write_model(config_of(family, num_hidden_layers=2), base)
    write_rows(folder / "rows.jsonl", rows)
    config = json.loads((base / "config.json").read_text())
    cases = []
    for number, (name, changed) in enumerate([("unchanged", config), *changes(config)]):
        place = folder / f"{family}-{number}"
        place.mkdir()
        (place / "model.safetensors").symlink_to(base / "model.safetensors")
        (place / "config.json").write_text(json.dumps(changed))
        cases.append((name, place))
    # Outputs are not compared here; --out is asked for by the command.
    commands = [["grads", "--model", place, "--rows", folder / "rows.jsonl", "--out", place / "out.safetensors"]
                for _, place in cases]
    result = run_many(None, commands, options=["--refusals"])
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(answers) == len(cases), failure_text(result)
    wrong, honoured, refused = [], 0, 0
    for (name, place), answer in zip(cases, answers):
        if "refused" in answer:
            refused += 1
            if name == "unchanged" or "_comment" in name:
                wrong.append(f"{name}: {answer['refused']}")
            continue
        wanted = loss_of_transformers(place, rows)
        if wanted is not None and abs(answer["loss"] - wanted) > TOLERANCE:
            wrong.append(f"{name}: loss {answer['loss']}, transformers {wanted}")
        honoured += wanted is not None
        shutil.rmtree(place)
    record_property("equal", honoured)
    record_property("refused", refused)
    assert not wrong, "\n".join(wrong)
