"""Parquet and Arrow files against pyarrow, which reads the same rows of them; damaged ones are refused, never half read."""
import datetime
import decimal
import json
import random
import subprocess

import datasets
import pyarrow
import pyarrow.parquet
import pytest

from data_speed import PROBE, ours, write_chats
from program import BUILD
from real_tokenizers import directory_of

@pytest.fixture(scope="module", autouse=True)
def reader():
    assert (BUILD / "lib" / "libtrireme_columns.so").exists(), "built without Arrow's libraries; scripts/setup installs them"


MESSAGE = pyarrow.struct([("role", pyarrow.string()), ("content", pyarrow.large_string()), ("loss", pyarrow.bool_()),
                          ("tool_calls", pyarrow.list_(pyarrow.struct([("name", pyarrow.string())])))])
MESSAGES = [[{"role": "user", "content": "Ahoi 航", "loss": None, "tool_calls": None},
             {"role": "assistant", "content": "", "loss": False, "tool_calls": [{"name": "f"}, {"name": None}]}],
            [], None, [{"role": None, "content": "ünï\n\"quoted\"", "loss": True, "tool_calls": []}]]


def table():
    """Four rows of everything that a data set may hold, and more."""
    columns = {
        "messages": pyarrow.array(MESSAGES, pyarrow.list_(MESSAGE)),
        "large": pyarrow.array(MESSAGES, pyarrow.large_list(MESSAGE)),
        "text": pyarrow.array(["a", "", None, "ß"], pyarrow.string()),
        "coded": pyarrow.array(["x", "y", None, "x"]).dictionary_encode(),
        "coded_lists": pyarrow.array([["x"], None, ["y", None], []], pyarrow.list_(pyarrow.dictionary(pyarrow.int8(), pyarrow.string()))),
        "nothing": pyarrow.nulls(4),
        "whole": pyarrow.array([1, -(2**63), None, 2**63 - 1], pyarrow.int64()),
        "bytes_u8": pyarrow.array([0, 255, None, 7], pyarrow.uint8()),
        "huge": pyarrow.array([0, 2**64 - 1, None, 5], pyarrow.uint64()),
        "real": pyarrow.array([0.1, -1e300, None, 3.0], pyarrow.float64()),
        "single": pyarrow.array([0.1, 2.5, None, -3.0], pyarrow.float32()),
        "flag": pyarrow.array([True, False, None, True]),
        "pair": pyarrow.array([[1, 2], [3, 4], [0, 0], [5, None]], pyarrow.list_(pyarrow.int32(), 2)),
        "nested": pyarrow.array([[[1], []], [], None, [[2, 3], None]], pyarrow.list_(pyarrow.list_(pyarrow.int16()))),
        "deep": pyarrow.array([{"a": {"b": [1]}}, {"a": None}, None, {"a": {"b": None}}],
                              pyarrow.struct([("a", pyarrow.struct([("b", pyarrow.list_(pyarrow.int32()))]))])),
    }
    return pyarrow.table(columns)


def others():
    """Values that JSON has no counterpart of: as text, as bytes, as pairs."""
    return pyarrow.table({"day": pyarrow.array([datetime.date(2026, 11, 17)]), "price": pyarrow.array([decimal.Decimal("1.50")]),
                          "raw": pyarrow.array([b"\x00\xff"]), "map": pyarrow.array([[("k", 1)]], pyarrow.map_(pyarrow.string(), pyarrow.int32()))})


def write_file(table, path):
    with pyarrow.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=3)


def write_stream(table, path):
    with pyarrow.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=3)


def write_packed_file(table, path):
    options = pyarrow.ipc.IpcWriteOptions(compression="zstd")
    with pyarrow.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table)


def parquet(**options):
    def write(table, path):
        pyarrow.parquet.write_table(table, path, row_group_size=3, write_page_checksum=True, **options)
    return write


WRITERS = {"a.parquet": parquet(), "zstd.parquet": parquet(compression="zstd", data_page_version="2.0"),
           "gzip.parquet": parquet(compression="gzip", use_dictionary=False), "brotli.parquet": parquet(compression="brotli"),
           "lz4.parquet": parquet(compression="lz4"), "plain.parquet": parquet(compression="none", version="1.0"),
           "file.arrow": write_file, "stream.arrow": write_stream, "packed.arrow": write_packed_file}


def records_of(paths):
    """One process for all: a crash on one of them fails the test."""
    result = subprocess.run([str(PROBE), "--records", *map(str, paths)], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_rows(folder):
    paths = []
    for name, write in WRITERS.items():
        write(table(), folder / name)
        paths.append(folder / name)
    wanted = table().to_pylist()
    for name, found in zip(WRITERS, records_of(paths)):
        assert found.get("records") == wanted, name


def test_views_and_others(folder):
    views = pyarrow.table({"text": pyarrow.array(["short", "a text that is longer than a view holds", None], pyarrow.string_view())})
    write_file(views, folder / "views.arrow")
    write_stream(others(), folder / "others.arrow")
    found = records_of([folder / "views.arrow", folder / "others.arrow"])
    assert found[0]["records"] == views.to_pylist()
    assert found[1]["records"] == [{"day": "2026-11-17", "price": "1.50", "raw": {"bytes": [0, 255], "subtype": None}, "map": [["k", 1]]}]


def test_chats_of_datasets(folder):
    """As people have them: saved by datasets, as Parquet and to disk; the rows are those of the JSON lines."""
    write_chats(folder / "chats.jsonl", 150)
    data = datasets.load_dataset("json", data_files=str(folder / "chats.jsonl"), split="train", cache_dir=str(folder / "cache"))
    data.to_parquet(str(folder / "chats.parquet"))
    data.save_to_disk(str(folder / "saved"))
    model = directory_of("qwen2_5")
    rows = [ours(model, path, folder, packing=False)[0]
            for path in (folder / "chats.jsonl", folder / "chats.parquet", folder / "saved" / "*.arrow")]
    assert len(rows[0]) == 150 and rows[0] == rows[1] == rows[2]


@pytest.mark.parametrize("name", WRITERS)
def test_damage(folder, name):
    """Truncated anywhere: refused. Changed anywhere: refused, or only values changed, as nothing but a digest would notice."""
    WRITERS[name](table(), folder / name)
    whole = (folder / name).read_bytes()
    generator = random.Random(name)
    cuts = sorted({0, 1, 4, 8, len(whole) - 1, *(generator.randrange(len(whole)) for _ in range(40))})
    changes = [generator.randrange(len(whole)) for _ in range(120)]
    paths = []
    for i, cut in enumerate(cuts):
        paths.append(folder / f"cut{i}-{name}")
        paths[-1].write_bytes(whole[:cut])
    for i, at in enumerate(changes):
        paths.append(folder / f"changed{i}-{name}")
        paths[-1].write_bytes(whole[:at] + bytes([whole[at] ^ (1 << generator.randrange(8))]) + whole[at + 1:])
    found = records_of(paths)
    for path, answer in zip(paths, found):
        if "error" in answer:
            assert answer["status"] == 2 and str(path) in answer["error"], answer
    refused = [("error" in answer) for answer in found]
    complete = [cut for cut, bad in zip(cuts, refused) if not bad]
    # A stream may end without its mark, as one that is still written does; whole batches before it are whole.
    assert not complete or (name == "stream.arrow" and all(cut >= len(whole) - 8 for cut in complete)), complete
    assert any(refused[len(cuts):])


def test_rows_that_the_footer_only_promises(folder):
    """The count of a row group as the footer has it, in Thrift's zigzag: 1000 becomes 1500, or -1500."""
    pyarrow.parquet.write_table(pyarrow.table({"text": [str(i) for i in range(1000)]}), folder / "whole.parquet")
    whole, count = (folder / "whole.parquet").read_bytes(), b"\x16\xd0\x0f\x26"
    assert whole.count(count) == 1
    for name, other in (("more.parquet", b"\xb8\x17"), ("fewer.parquet", b"\xb7\x17")):
        (folder / name).write_bytes(whole.replace(count, b"\x16" + other + b"\x26"))
    more, fewer = records_of([folder / "more.parquet", folder / "fewer.parquet"])
    assert more["status"] == 2 and "row group 0 has 1000 rows, and the footer says 1500" in more["error"], more
    assert fewer["status"] == 2 and "-1500 rows" in fewer["error"], fewer


def test_other_files(folder):
    for name in ("a.parquet", "a.arrow"):
        (folder / name).write_text('{"text": "not columns"}\n' * 20)
    parquet()(table(), folder / "renamed.arrow")
    write_stream(table(), folder / "renamed.parquet")
    invalid = pyarrow.StringArray.from_buffers(1, pyarrow.py_buffer(b"\0\0\0\0\2\0\0\0"), pyarrow.py_buffer(b"\xff\xfe"))
    write_stream(pyarrow.table({"text": invalid}), folder / "utf8.arrow")
    for found in records_of(folder / name for name in ("a.parquet", "a.arrow", "renamed.arrow", "renamed.parquet", "utf8.arrow")):
        assert found.get("status") == 2, found
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a"], "name": ["b"]}), folder / "name.parquet", store_schema=False)
    (folder / "name.parquet").write_bytes((folder / "name.parquet").read_bytes().replace(b"name", b"n\xff\xfee"))
    found = records_of([folder / "name.parquet"])[0]
    assert found["status"] == 2 and "the name of its column 2 is not UTF-8" in found["error"], found
