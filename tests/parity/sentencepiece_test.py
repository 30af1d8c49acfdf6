"""Tokenizers of older kinds, without tokenizer.json: they are refused with a command, and that command, as it stands in the message,
makes a tokenizer.json with which our ids are those of transformers."""
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys

import pytest
import transformers
from transformers.utils import sentencepiece_model_pb2_new as sentencepiece

from program import BUILD, start

SENTENCES = ["the tokens of the tide rise", "row the boat to the other side of the river", "plain text for the plain tokenizer"]
PIECE = sentencepiece.ModelProto.SentencePiece


def merged_pieces(words, count):
    """Pairs of pieces that are frequent, as a BPE trainer finds them."""
    rows, pieces = [list(word) for word in words], []
    for _ in range(count):
        pairs = [pair for row in rows for pair in zip(row, row[1:])]
        if not pairs:
            break
        first, second = max(sorted(set(pairs)), key=pairs.count)
        pieces.append(first + second)
        for row in rows:
            for at in range(len(row) - 2, -1, -1):
                if row[at:at + 2] == [first, second]:
                    row[at:at + 2] = [first + second]
    return list(dict.fromkeys(pieces))


def write_sentencepiece(folder):
    """As Llama 2 has it: BPE, unknown letters as bytes, a blank before each text."""
    words = ["▁" + word for sentence in SENTENCES for word in sentence.split()]
    pieces = [("<unk>", PIECE.UNKNOWN), ("<s>", PIECE.CONTROL), ("</s>", PIECE.CONTROL)]
    pieces += [(f"<0x{byte:02X}>", PIECE.BYTE) for byte in range(256)]
    pieces += [(piece, PIECE.NORMAL) for piece in [*merged_pieces(words, 60), *sorted(set("".join(words)))]]
    model = sentencepiece.ModelProto()
    for number, (piece, kind) in enumerate(pieces):
        model.pieces.add(piece=piece, score=-float(number) if kind == PIECE.NORMAL else 0, type=kind)
    model.trainer_spec.model_type, model.trainer_spec.byte_fallback = 2, True
    model.normalizer_spec.add_dummy_prefix, model.normalizer_spec.remove_extra_whitespaces = True, False
    (folder / "tokenizer.model").write_bytes(model.SerializeToString())
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>",
                                                              "unk_token": "<unk>", "add_bos_token": True, "legacy": True}))


def write_vocabulary(folder):
    """As Qwen2 and GPT-2 have it: vocab.json and merges.txt, of bytes."""
    letters = [chr(code) for code in range(33, 127)] + ["Ġ"]
    words = ["Ġ" + word for sentence in SENTENCES for word in sentence.split()]
    rows, merges = merged_pieces(words, 40), []
    known = set(letters)
    for piece in rows:
        split = next((at for at in range(1, len(piece)) if piece[:at] in known and piece[at:] in known), None)
        if split:
            merges.append(f"{piece[:split]} {piece[split:]}")
            known.add(piece)
    names = [*letters, *(merge.replace(" ", "") for merge in merges), "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({name: number for number, name in enumerate(dict.fromkeys(names))}))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|endoftext|>", "unk_token": None}))


def environment(folder):
    """Transformers wants the package sentencepiece, of which it uses the messages only; it has them itself."""
    if not any((pathlib.Path(entry) / "sentencepiece").exists() for entry in sys.path):
        package = folder / "site" / "sentencepiece"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text('__version__ = "0"\n')
        (package / "sentencepiece_model_pb2.py").write_text("from transformers.utils.sentencepiece_model_pb2_new import *\n")
    return {**os.environ, "PYTHONPATH": str(folder / "site"), "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}


def texts():
    drawn = random.Random(3)
    words = [word for sentence in SENTENCES for word in sentence.split()] + ["  ", "\n", "Zahl", "12", "größer", "航海", "🙂", "<s>", "\t"]
    return ["", " ", "  two blanks", *SENTENCES] + [drawn.choice(["", " "]).join(drawn.choices(words, k=drawn.randint(1, 9))) for _ in range(300)]


@pytest.mark.parametrize("file, write", [("tokenizer.model", write_sentencepiece), ("vocab.json", write_vocabulary)])
def test_the_command_of_the_refusal_converts(folder, file, write):
    directory = folder / f"a model's {file}"
    directory.mkdir()
    shutil.copy("examples/chat/config.json", directory)
    write(directory)
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    refused = start(None, [BUILD / "trireme", "generate", "--model", directory, "--prompt", "a"])
    assert refused.returncode == 2 and len(refused.stderr.splitlines()) == 1, refused.stderr
    assert f"has {file} and no tokenizer.json; convert it once, with transformers, sentencepiece and protobuf installed: " in refused.stderr
    command = re.search(r"python3 -c .*", refused.stderr).group()
    result = subprocess.run(["bash", "-c", command], env=environment(folder / file.replace(".", "-")), capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    made = directory / "tokenizer.json"
    assert {path.name: path.read_bytes() for path in directory.iterdir() if path != made} == before
    theirs = transformers.AutoTokenizer.from_pretrained(directory)
    words = [str(BUILD / "tests" / "text" / "tokenizer_probe"), str(directory), "examples/chat/chat_template.jinja"]
    lines = "".join(json.dumps({"encode": text}) + "\n" for text in texts())
    ours = subprocess.run(words, input=lines, capture_output=True, text=True)
    assert ours.returncode == 0, ours.stderr
    for text, line in zip(texts(), ours.stdout.splitlines(), strict=True):
        assert json.loads(line)["ids"] == theirs(text, add_special_tokens=False)["input_ids"], repr(text)
