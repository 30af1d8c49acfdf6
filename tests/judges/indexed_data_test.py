#!/usr/bin/env python3
"""Megatron's .bin and .idx against megatron-core: we read what its builder wrote, it reads what we wrote; rows, splits
and blends by its rules."""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy
import torch
import transformers
import yaml
from megatron.core.datasets import helpers_cpp
from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder

from program import BUILD

ROOT = pathlib.Path(__file__).resolve().parents[2]
LENGTH = 16


def write_theirs(prefix, dtype, seed):
    """Documents of one to three sequences; the tokens of each document."""
    generator = random.Random(seed)
    builder = IndexedDatasetBuilder(f"{prefix}.bin", dtype=dtype)
    documents = []
    for _ in range(40):
        lengths = [generator.randrange(1, 30) for _ in range(generator.randrange(1, 4))]
        ids = [generator.randrange(200) for _ in range(sum(lengths))]
        builder.add_document(torch.tensor(ids), lengths)
        documents.append(ids)
    builder.finalize(f"{prefix}.idx")
    return documents


def rows_of(folder, train, **data):
    config = {"stage": "pt", "model": {"path": str(ROOT / "examples" / "chat")},
              "data": {"train": train, "max_length": LENGTH, "packing": False, "shuffle": False, "cache": str(folder / "cache"), **data}}
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    probe = BUILD / "tests" / "train" / "data" / "data_probe"
    result = subprocess.run([str(probe), str(folder / "run.yaml")], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def cut(documents):
    """The documents as one text, split into rows that overlap by one token."""
    text = numpy.concatenate([numpy.array(document) for document in documents])
    count = (len(text) - 1) // (LENGTH - 1)
    return [text[i * (LENGTH - 1):i * (LENGTH - 1) + LENGTH].tolist() for i in range(count)]


def blend(sizes, weights):
    """Which row of which dataset is where, as megatron-core's own helper blends them."""
    total = sum(sizes)
    parts, rows = numpy.zeros(total, dtype=numpy.int16), numpy.zeros(total, dtype=numpy.int64)
    helpers_cpp.build_blending_indices(parts, rows, numpy.array(weights) / sum(weights), len(sizes), total, False)
    return [(part, row % sizes[part]) for part, row in zip(parts.tolist(), rows.tolist())]


def judge_reading(folder):
    documents = {}
    for name, dtype in {"u8": numpy.uint8, "i16": numpy.int16, "i32": numpy.int32, "i64": numpy.int64, "u16": numpy.uint16}.items():
        documents[name] = write_theirs(folder / name, dtype, seed=len(documents))
        rows = rows_of(folder, [str(folder / name)])
        assert [row["input_ids"] for row in rows] == cut(documents[name]), name
        assert all(row["labels"] == row["input_ids"] for row in rows), name
    split = rows_of(folder, [str(folder / "i32")], split=[31, 8, 1])
    train, valid = documents["i32"][:31], documents["i32"][31:39]
    assert [row["input_ids"] for row in split if not row["valid"]] == cut(train)
    assert [row["input_ids"] for row in split if row["valid"]] == cut(valid)
    names, weights = ["u8", "i16", "u16"], [0.5, 0.3, 0.2]
    parts = [cut(documents[name]) for name in names]
    mixed = rows_of(folder, [f"{folder / name}@{weight}" for name, weight in zip(names, weights)])
    wanted = [parts[part][row] for part, row in blend([len(part) for part in parts], weights)]
    assert [row["input_ids"] for row in mixed] == wanted, "blend"
    isolated = rows_of(folder, [str(folder / "i64")], packing=True)
    borders = set(numpy.cumsum([0] + [len(document) for document in documents["i64"]]).tolist())
    for index, row in enumerate(isolated):
        first = index * (LENGTH - 1)
        assert row["starts"] == [0] + [place for place in range(1, LENGTH) if first + place in borders], row
    again = rows_of(folder, [str(folder / "i64")], shuffle=True)
    assert again == rows_of(folder, [str(folder / "i64")], shuffle=True) != rows_of(folder, [str(folder / "i64")])
    return f"ok: five integer types, splits, a blend of {len(mixed)} rows, isolated documents, the same shuffle twice"


def judge_writing(folder):
    texts = [f"text {i}: " + "añ你🚢 " * (i % 7) for i in range(50)]
    (folder / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    config = {"stage": "pt", "model": {"path": str(ROOT / "examples" / "chat")},
              "data": {"train": [str(folder / "a.jsonl")], "cache": str(folder / "cache")}}
    (folder / "pt.yaml").write_text(yaml.safe_dump(config))
    command = [str(BUILD / "trireme"), "tokenize", str(folder / "pt.yaml"), "--out", str(folder / "ours")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    theirs = IndexedDataset(str(folder / "ours"), mmap=True)
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(ROOT / "examples" / "chat")
    assert len(theirs) == len(texts) and theirs.index.dtype == numpy.uint16
    assert theirs.document_indices.tolist() == list(range(len(texts) + 1))
    for index, text in enumerate(texts):
        assert theirs[index].tolist() == tokenizer.encode(text) + [tokenizer.eos_token_id], text
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 2 and "already exists" in again.stderr, again.stderr
    return f"ok: megatron-core reads the {len(texts)} documents that ours wrote"


def main():
    with tempfile.TemporaryDirectory() as scratch:
        print(judge_reading(pathlib.Path(scratch)), flush=True)
        print(judge_writing(pathlib.Path(scratch)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
