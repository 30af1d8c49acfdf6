"""Rows of conversations, against `datasets.map` with transformers' fast tokenizer. How long each takes is compared by
hand, with data_speed.py, on a machine that does nothing else."""
import gzip
import json

import pyarrow
import transformers

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


TEMPLATE = ("{% for m in messages %}<|im_start|>{{ m.role }}{% if tone %} ({{ tone }}, {{ level + 1 }}){% endif %}\n"
            "{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def test_template_values(folder):
    """Variables of all conversations, and those of a record, which come first, as apply_chat_template takes them."""
    messages = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]
    records = [({}, {}), ({"chat_template_kwargs": {"level": 7}}, {"level": 7}),
               ({"chat_template_kwargs": {"tone": ""}}, {"tone": ""})]
    path, template = folder / "values.jsonl", folder / "template.jinja"
    path.write_text("".join(json.dumps({"messages": messages, **own}) + "\n" for own, _ in records))
    template.write_text(TEMPLATE)
    model = directory_of("qwen2_5")
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(model)
    for values in ({}, {"tone": "dry", "level": 2}):
        data = {"template": str(template), "template_values": [f"{name}={value}" for name, value in values.items()]}
        rows, _ = data_speed.ours(model, path, folder, packing=False, data=data)
        wanted = [tokenizer.apply_chat_template(messages, chat_template=TEMPLATE, tokenize=True, return_dict=True,
                                                **{"level": 0, **values, **variables})["input_ids"] for _, variables in records]
        assert [row["input_ids"] for row in rows] == wanted, values


def test_gzip(folder):
    """The rows of a compressed file, in two members, are those of the plain one."""
    path, packed = folder / "plain.jsonl", folder / "packed.jsonl.gz"
    data_speed.write_chats(path, 200)
    lines = path.read_bytes().splitlines(keepends=True)
    packed.write_bytes(b"".join(gzip.compress(b"".join(part)) for part in (lines[:70], lines[70:])))
    model = directory_of("qwen2_5")
    rows, again = (data_speed.ours(model, one, folder, packing=False)[0] for one in (path, packed))
    assert len(rows) == 200 and rows == again


def test_zstd(folder):
    """Likewise by pyarrow's zstd: a frame that says how long its content is, and one that does not."""
    path, packed = folder / "zstd.jsonl", folder / "zstd.jsonl.zst"
    data_speed.write_chats(path, 200)
    lines = path.read_bytes().splitlines(keepends=True)
    streamed = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(streamed, "zstd") as stream:
        stream.write(b"".join(lines[70:]))
    packed.write_bytes(pyarrow.compress(b"".join(lines[:70]), "zstd", asbytes=True) + streamed.getvalue().to_pybytes())
    model = directory_of("qwen2_5")
    rows, again = (data_speed.ours(model, one, folder, packing=False)[0] for one in (path, packed))
    assert len(rows) == 200 and rows == again
