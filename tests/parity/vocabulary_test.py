"""New tokens and a larger vocabulary, against transformers' add_tokens and resize_token_embeddings: the same ids, the same old rows,
new rows at the mean of the old ones; the grown model loads in transformers, and has the same loss and gradients under every layout."""
import json
import os
import subprocess

import pytest
import safetensors.torch
import tokenizers
import torch
import transformers
import yaml

import tiny_models
from data_speed import ours
from gradients import Reference, assert_equals
from program import BUILD, run_grads, words_of

PROBE = BUILD / "tests" / "session" / "grown_model_probe"
NEW, SPECIAL = ["<tide>", "row hard", "航海", "tokenn"], ["<|oar|>", "<|sail|>"]
TEXTS = ["<tide> row hard<tide>, 航海 <|oar|>tokens tokenn<|sail|>", "row harder", "plain text"]


def write_tokenizer(folder):
    """Byte-level BPE, with one added token already."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=330, special_tokens=["<|end|>"],
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(["the tokens of the tide", "row the boat", "plain text"] * 3, trainer)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>")
    fast.add_tokens(["already"])
    fast.chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content }}<|end|>{% endfor %}"
    fast.save_pretrained(folder)
    return fast


def write_model(folder, tied, room, shard_size, dtype=torch.float32):
    tokenizer = write_tokenizer(folder)
    torch.manual_seed(3)
    config = tiny_models.config_of("qwen2" if tied else "qwen3", num_hidden_layers=2, vocab_size=len(tokenizer) + room)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype)
    model.save_pretrained(folder, max_shard_size=shard_size)
    return model, tokenizer


def grown(folder, model, **keys):
    run = {"model": {"path": str(model), **keys}, "data": {"cache": str(folder / "cache")}}
    (folder / "grow.yaml").write_text(yaml.safe_dump(run))
    return subprocess.run([str(PROBE), str(folder / "grow.yaml")], capture_output=True, text=True)


def grow(folder, model, **keys):
    result = grown(folder, model, **keys)
    assert result.returncode == 0, result.stderr
    return folder / result.stdout.strip()


def assert_rows_equal(found, old, wanted):
    """Old rows bit by bit; new ones are the mean, and those of transformers' up to its noise."""
    count = len(old)
    assert found.shape == wanted.shape and torch.equal(found[:count], old)
    if len(found) == count:
        return
    mean = old.double().mean(0)
    assert torch.equal(found[count:], mean.float().to(found.dtype).expand(len(found) - count, -1))
    assert (found[count:].float() - wanted[count:].float()).abs().max() < 1e-3 * old.float().std()


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("room, multiple", [(0, 0), (0, 128), (3, 0), (500, 0), (500, 64)])
def test_like_transformers(folder, tied, room, multiple):
    base, dtype = folder / f"{tied}-{room}-{multiple}", torch.bfloat16 if room == 3 else torch.float32
    model, tokenizer = write_model(base, tied, room, "20KB" if multiple else "1GB", dtype)
    directory = grow(folder, base, new_tokens=NEW, new_special_tokens=SPECIAL, vocabulary_multiple=multiple)
    old = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}

    tokenizer.add_tokens(NEW)
    tokenizer.add_tokens(SPECIAL, special_tokens=True)
    size = max(len(tokenizer), model.config.vocab_size)
    if size > model.config.vocab_size or multiple:
        model.resize_token_embeddings(size, pad_to_multiple_of=multiple or None)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=dtype)
    assert loaded.config.vocab_size == model.config.vocab_size
    wanted, found = model.state_dict(), loaded.state_dict()
    assert found.keys() == wanted.keys()
    for name, tensor in found.items():
        assert_rows_equal(tensor, old[name], wanted[name])

    saved = transformers.PreTrainedTokenizerFast.from_pretrained(directory)
    assert len(saved) == len(tokenizer)
    for text in TEXTS:
        ids = tokenizer(text)["input_ids"]
        assert saved(text)["input_ids"] == ids
        assert saved.decode(ids, skip_special_tokens=True) == tokenizer.decode(ids, skip_special_tokens=True)


def test_our_tokens(folder):
    """What the program trains on has the new tokens."""
    base = folder / "tokens"
    _, tokenizer = write_model(base, False, 0, "1GB")
    directory = grow(folder, base, new_tokens=NEW, new_special_tokens=SPECIAL)
    messages = [[{"role": "user", "content": text}, {"role": "assistant", "content": text + " again"}] for text in TEXTS]
    (folder / "new.jsonl").write_text("".join(json.dumps({"messages": one}) + "\n" for one in messages))
    tokenizer.add_tokens(NEW)
    tokenizer.add_tokens(SPECIAL, special_tokens=True)
    rows, _ = ours(directory, folder / "new.jsonl", folder, packing=False)
    assert [row["input_ids"] for row in rows] == [tokenizer.apply_chat_template(one, tokenize=True, return_dict=True)["input_ids"]
                                                 for one in messages]


def test_older_transformers(folder):
    """transformers 4 reads the same tokens of it."""
    base = folder / "older"
    _, tokenizer = write_model(base, True, 0, "1GB")
    directory = grow(folder, base, new_tokens=NEW, new_special_tokens=SPECIAL)
    program = "import json, sys, transformers; t = transformers.PreTrainedTokenizerFast.from_pretrained(sys.argv[1]); " \
              "print(json.dumps([t(text)['input_ids'] for text in json.loads(sys.argv[2])]))"
    result = subprocess.run([".venv-parity-transformers-4/bin/python", "-c", program, str(directory), json.dumps(TEXTS)],
                            capture_output=True, text=True, check=True)
    tokenizer.add_tokens(NEW)
    tokenizer.add_tokens(SPECIAL, special_tokens=True)
    assert json.loads(result.stdout) == [tokenizer(text)["input_ids"] for text in TEXTS]


def test_made_once(folder):
    base = folder / "once"
    write_model(base, False, 0, "20KB")
    first = grow(folder, base, new_tokens=NEW)
    stamp = os.stat(first / "config.json").st_mtime_ns
    assert grow(folder, base, new_tokens=NEW) == first and os.stat(first / "config.json").st_mtime_ns == stamp
    assert grow(folder, base, new_tokens=NEW[:1]) != first
    assert grow(folder, base) == base
    assert grow(folder, first, new_tokens=NEW) == first  # nothing left to add
    linked = [file.name for file in first.iterdir() if file.is_symlink()]
    whole = json.loads((first / "model.safetensors.index.json").read_text())["weight_map"]
    assert linked and not {whole[name] for name in ("model.embed_tokens.weight", "lm_head.weight")} & set(linked)
    for file in first.glob("*.safetensors"):
        safetensors.torch.load_file(file)


def test_refused(folder):
    base = folder / "refused"
    write_model(base, False, 0, "1GB")
    for keys, wanted in (({"new_tokens": ["a", "a"]}, "twice"), ({"new_tokens": [""]}, "empty token")):
        result = grown(folder, base, **keys)
        assert result.returncode == 2 and wanted in result.stderr, result.stderr
    (base / "tokenizer.json").unlink()
    result = grown(folder, base, new_tokens=["x"])
    assert result.returncode == 2 and "has no tokenizer.json" in result.stderr


def test_layouts(folder, record_property):
    """Loss and gradients of a model that has grown, as transformers computes them from its directory."""
    base = folder / "trained"
    _, tokenizer = write_model(base, False, 0, "1GB")
    directory = grow(folder, base, new_tokens=NEW, new_special_tokens=SPECIAL)
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    size = model.config.vocab_size
    rows = [{"input_ids": [1, size - 1, 5, size - 2, 9, size - 6], "labels": [-100, size - 1, 5, size - 2, 9, size - 6]} for _ in range(4)]
    tiny_models.write_rows(folder / "rows.jsonl", rows)
    loss, tokens = tiny_models.backward(model, rows)
    gradients = tiny_models.gradients(model)
    reference = Reference(base, folder / "rows.jsonl", loss, tokens, tiny_models.norm_of(gradients.values()), gradients)
    keys = [f"model.new_tokens={json.dumps(NEW, ensure_ascii=False)}", f"model.new_special_tokens={json.dumps(SPECIAL)}",
            f"data.cache={folder / 'cache'}", "model.dtype=fp32"]
    commands = {}
    for number, (ranks, layout) in enumerate([(1, []), (2, ["parallel.tensor=2"]), (2, ["parallel.pipeline=2"])]):
        commands.setdefault(ranks, []).append(["grads", "--model", base, "--rows", reference.rows, "--out",
                                               folder / f"grads{number}.safetensors", *words_of([*keys, *layout])])
    for ranks, words in commands.items():
        for outcome in run_grads(ranks if ranks > 1 else None, words):
            assert_equals(outcome, reference, lambda errors: [record_property(*item) for item in errors.items()])
