"""Megatron's .bin and .idx, against megatron-core: ours reads what its builder wrote, it reads what ours wrote; rows,
splits and blends by its rules."""
import functools
import json
import pathlib
import random

import numpy
import pytest
import torch
import transformers
import yaml
from megatron.core.datasets import helpers_cpp
from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder

from program import BUILD, failure_text, run, run_well, start

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
    probe = BUILD / "tests" / "data" / "data_probe"
    result = start(None, [probe, folder / "run.yaml"])
    assert result.returncode == 0, failure_text(result)
    return [json.loads(line) for line in result.stdout.splitlines()]


def cut(documents):
    """The documents as one text, cut into rows that share a token."""
    text = numpy.concatenate([numpy.array(document) for document in documents])
    count = (len(text) - 1) // (LENGTH - 1)
    return [text[i * (LENGTH - 1):i * (LENGTH - 1) + LENGTH].tolist() for i in range(count)]


def blend(sizes, weights):
    """Which row of which part stands where, as megatron-core's own helper shares them out."""
    total = sum(sizes)
    parts, rows = numpy.zeros(total, dtype=numpy.int16), numpy.zeros(total, dtype=numpy.int64)
    helpers_cpp.build_blending_indices(parts, rows, numpy.array(weights) / sum(weights), len(sizes), total, False)
    return [(part, row % sizes[part]) for part, row in zip(parts.tolist(), rows.tolist())]


KINDS = {"u8": numpy.uint8, "i16": numpy.int16, "i32": numpy.int32, "i64": numpy.int64, "u16": numpy.uint16}


@pytest.fixture(scope="module")
def documents(folder):
    """By kind of number: the documents that megatron-core's builder wrote, made when first asked for."""
    return functools.cache(lambda name: write_theirs(folder / name, KINDS[name], seed=list(KINDS).index(name)))


@pytest.mark.parametrize("name", KINDS)
def test_rows(name, documents, folder):
    wanted = cut(documents(name))
    rows = rows_of(folder, [str(folder / name)])
    assert [row["input_ids"] for row in rows] == wanted
    assert all(row["labels"] == row["input_ids"] for row in rows)


def test_split(documents, folder):
    train, valid = documents("i32")[:31], documents("i32")[31:39]
    rows = rows_of(folder, [str(folder / "i32")], split=[31, 8, 1])
    assert [row["input_ids"] for row in rows if not row["valid"]] == cut(train)
    assert [row["input_ids"] for row in rows if row["valid"]] == cut(valid)


def test_blend(documents, folder, record_property):
    names, weights = ["u8", "i16", "u16"], [0.5, 0.3, 0.2]
    parts = [cut(documents(name)) for name in names]
    rows = rows_of(folder, [f"{folder / name}@{weight}" for name, weight in zip(names, weights)])
    wanted = [parts[part][row] for part, row in blend([len(part) for part in parts], weights)]
    record_property("rows", len(rows))
    assert [row["input_ids"] for row in rows] == wanted


def test_packed_documents_are_isolated(documents, folder):
    boundaries = set(numpy.cumsum([0] + [len(document) for document in documents("i64")]).tolist())
    for index, row in enumerate(rows_of(folder, [str(folder / "i64")], packing=True)):
        first = index * (LENGTH - 1)
        assert row["starts"] == [0] + [place for place in range(1, LENGTH) if first + place in boundaries], row


def test_shuffling_is_the_same_twice(documents, folder):
    documents("i64")
    again = rows_of(folder, [str(folder / "i64")], shuffle=True)
    assert again == rows_of(folder, [str(folder / "i64")], shuffle=True) != rows_of(folder, [str(folder / "i64")])


def test_megatron_reads_what_ours_wrote(folder):
    texts = [f"text {i}: " + "añ你🚢 " * (i % 7) for i in range(50)]
    (folder / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    config = {"stage": "pt", "model": {"path": str(ROOT / "examples" / "chat")},
              "data": {"train": [str(folder / "a.jsonl")], "cache": str(folder / "cache")}}
    (folder / "pt.yaml").write_text(yaml.safe_dump(config))
    command = ["tokenize", folder / "pt.yaml", "--out", folder / "ours"]
    run_well(None, command)
    theirs = IndexedDataset(str(folder / "ours"), mmap=True)
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(ROOT / "examples" / "chat")
    assert len(theirs) == len(texts) and theirs.index.dtype == numpy.uint16
    assert theirs.document_indices.tolist() == list(range(len(texts) + 1))
    for index, text in enumerate(texts):
        assert theirs[index].tolist() == tokenizer.encode(text) + [tokenizer.eos_token_id], text
    again = run(None, command)
    assert again.returncode == 2 and "already exists" in again.stderr, failure_text(again)
