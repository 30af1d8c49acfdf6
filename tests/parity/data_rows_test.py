"""Rows of conversations, against `datasets.map` with transformers' fast tokenizer. How long each takes is compared by
hand, with data_speed.py, on a machine that does nothing else."""
import data_speed
from real_tokenizers import directory_of


def test_rows(folder, record_property):
    data_speed.write_chats(folder / "chats.jsonl", 300)
    model = directory_of("qwen2_5")
    ids, labels, _ = data_speed.theirs(model, folder / "chats.jsonl", 1)
    rows, _ = data_speed.ours(model, folder / "chats.jsonl", folder, packing=False)
    record_property("rows", len(rows))
    assert rows and [row["input_ids"] for row in rows] == list(ids)
    assert [row["labels"] for row in rows] == list(labels)
