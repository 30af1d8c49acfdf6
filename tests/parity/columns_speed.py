#!/usr/bin/env python3
"""Parquet and Arrow files to rows, by hand, against pyarrow: how long each takes to read all of a file into objects. Ours
includes the start of the program and of Arrow's libraries; theirs counts reading and to_pylist alone. That the rows are the same is
tested by columns_test.py."""
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import datasets
import pyarrow
import pyarrow.parquet

from data_speed import PROBE, write_chats


def theirs(path):
    start = time.perf_counter()
    if path.suffix == ".parquet":
        table = pyarrow.parquet.read_table(path)
    else:
        with pyarrow.memory_map(str(path)) as source:
            table = pyarrow.ipc.open_stream(source).read_all()
    rows = table.to_pylist()
    return len(rows), time.perf_counter() - start


def our_rows(path):
    start = time.perf_counter()
    result = subprocess.run([str(PROBE), "--count-records", str(path)], capture_output=True, text=True, check=True)
    return json.loads(result.stdout)["records"], time.perf_counter() - start


def main():
    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        write_chats(folder / "chats.jsonl", 40000)
        data = datasets.load_dataset("json", data_files=str(folder / "chats.jsonl"), split="train", cache_dir=str(folder / "cache"))
        data.to_parquet(str(folder / "chats.parquet"))
        data.save_to_disk(str(folder / "saved"))
        for path in (folder / "chats.parquet", *sorted((folder / "saved").glob("*.arrow"))):
            their_best = min(theirs(path) for _ in range(3))
            our_best = min(our_rows(path) for _ in range(3))
            assert our_best[0] == their_best[0]
            print(json.dumps({"file": path.suffix, "rows": our_best[0], "mib": round(path.stat().st_size / 2**20, 1),
                              "pyarrow_seconds": round(their_best[1], 3), "seconds": round(our_best[1], 3),
                              "ratio": round(their_best[1] / our_best[1], 2)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
