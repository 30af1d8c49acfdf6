"""Data sets that dataset_info.json describes, against LLaMA-Factory's own parser and converters: the same file, read as it
stands, gives the conversations that they make of it, as transformers renders and tokenizes them."""
import json
import pathlib
import sys
import types

import datasets
import pytest
import transformers

import data_speed
import llamafactory
from real_tokenizers import directory_of

# Only the two modules that read descriptions: the package itself imports everything that LLaMA-Factory can do.
if "llamafactory.data" not in sys.modules:
    package = types.ModuleType("llamafactory.data")
    package.__path__ = [str(pathlib.Path(llamafactory.__path__[0]) / "data")]
    sys.modules[package.__name__] = package
from llamafactory.data.converter import get_dataset_converter  # noqa: E402
from llamafactory.data.parser import get_dataset_list  # noqa: E402

TOOLS = json.dumps([{"name": "weather", "description": "of a town", "parameters": {"type": "object", "properties": {}}}])
CALL = {"name": "weather", "arguments": {"town": "Piraeus"}}
TALK = [{"from": "human", "value": "Hello"}, {"from": "gpt", "value": "Good day"},
        {"from": "human", "value": "And now?"}, {"from": "gpt", "value": "Now we row"}]
ROLES = {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant", "system_tag": "system"}

# Name, its entry but for the file, its records.
SETS = {
    "plain": ({}, [{"instruction": "Say it", "input": "twice", "output": "it it"}, {"instruction": "Go", "input": "", "output": "Gone"}]),
    "named": ({"columns": {"prompt": "q", "response": "a", "system": "s", "history": "h"}},
              [{"q": "Then?", "a": "Home", "s": "Be brief", "h": [["First?", "Out"], ["Next?", "Around"]], "input": "not a column"},
               {"q": "Who?", "a": "I", "s": "", "h": [], "input": "not a column"}]),
    "talks": ({"formatting": "sharegpt"}, [{"conversations": TALK}, {"conversations": [{"from": "system", "value": "Be kind"}] + TALK[:2]}]),
    "tools": ({"formatting": "sharegpt", "columns": {"messages": "conversations", "system": "system", "tools": "tools"}},
              [{"conversations": [{"from": "human", "value": "Weather?"}, {"from": "function_call", "value": json.dumps(CALL)},
                                  {"from": "observation", "value": '{"sky": "clear"}'}, {"from": "gpt", "value": "Clear"}],
                "system": "Use tools", "tools": TOOLS},
               {"conversations": [{"from": "human", "value": "Both?"}, {"from": "function_call", "value": json.dumps([CALL, CALL])},
                                  {"from": "observation", "value": "[]"}, {"from": "gpt", "value": "Done"}], "system": "", "tools": TOOLS}]),
    "roles": ({"formatting": "sharegpt", "columns": {"messages": "messages"}, "tags": ROLES},
              [{"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}, {"role": "assistant", "content": "A"}]},
               {"messages": [{"role": "user", "content": "V"}, {"role": "assistant", "content": "B"}]}]),
}
PAIRS = {
    "ranked": ({"ranking": True, "columns": {"prompt": "instruction", "query": "input", "chosen": "good", "rejected": "bad"}},
               [{"instruction": "Which", "input": "one?", "good": "This", "bad": "That"}, {"instruction": "Or", "input": "", "good": "a", "bad": "b"}]),
    "ranked_talks": ({"formatting": "sharegpt", "ranking": True,
                      "columns": {"messages": "conversations", "chosen": "chosen", "rejected": "rejected"}},
                     [{"conversations": TALK[:3], "chosen": {"from": "gpt", "value": "Now we row"}, "rejected": {"from": "gpt", "value": "No"}}]),
}


def write(folder, sets):
    described = {"elsewhere": {"hf_hub_url": "someone/something"}}
    for name, (entry, records) in sets.items():
        (folder / f"{name}.json").write_text(json.dumps(records, indent=1))
        described[name] = {"file_name": f"{name}.json", **entry}
    (folder / "dataset_info.json").write_text(json.dumps(described))


def theirs(folder, name):
    """What LLaMA-Factory makes of the data set, and its description of it."""
    entry, = get_dataset_list([name], str(folder))
    records = datasets.load_dataset("json", data_files=str(folder / entry.dataset_name), split="train", cache_dir=str(folder / "cache"))
    convert = get_dataset_converter(entry.formatting, entry, types.SimpleNamespace(media_dir=str(folder)))
    return [convert(record) for record in records]


def normal(message):
    """In the words of chat templates."""
    role = {"observation": "tool", "function": "call"}.get(message["role"], message["role"])
    if role != "call":
        return {"role": role, "content": message["content"]}
    calls = json.loads(message["content"])
    calls = calls if isinstance(calls, list) else [calls]
    return {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": call} for call in calls]}


def rendered(tokenizer, sample, answer):
    messages = [{"role": "system", "content": sample["_system"]}] if sample["_system"] else []
    messages += [normal(message) for message in [*sample["_prompt"], sample["_response"][answer]]]
    tools = json.loads(sample["_tools"]) if sample["_tools"] else None
    return tokenizer.apply_chat_template(messages, tools=tools, tokenize=True, return_dict=True)["input_ids"]


@pytest.mark.parametrize("name", [*SETS, *PAIRS])
def test_conversations(folder, name):
    write(folder, {**SETS, **PAIRS})
    model = directory_of("qwen2_5")
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(model)
    wanted = [[rendered(tokenizer, sample, side) for side in range(2 if name in PAIRS else 1)] for sample in theirs(folder, name)]
    rows, _ = data_speed.ours(model, name, folder, packing=False, stage="rm" if name in PAIRS else "sft",
                              data={"dataset_info": str(folder)})
    found = []
    for row in rows:
        starts = (row["starts"] or [0]) + [len(row["input_ids"])]
        found.append([row["input_ids"][begin:end] for begin, end in zip(starts, starts[1:])])
    assert found == wanted and len(found) == len(PAIRS.get(name, SETS.get(name))[1])


def test_feedback(folder):
    """kto_tag: the answer is one side, and the other one is empty."""
    records = [{"conversations": TALK, "good": good} for good in (True, False)]
    write(folder, {"feedback": ({"formatting": "sharegpt", "columns": {"messages": "conversations", "kto_tag": "good"}}, records)})
    samples = theirs(folder, "feedback")
    model = directory_of("qwen2_5")
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(model)
    rows, _ = data_speed.ours(model, "feedback", folder, packing=False, stage="kto", data={"dataset_info": str(folder / "dataset_info.json")})
    labels = [sample["_response"][0]["content"] != "" for sample in samples]
    assert [bool(row["values"][0]) for row in rows] == labels == [True, False]
    assert [row["input_ids"] for row in rows] == [rendered(tokenizer, sample, 0 if label else 1) for sample, label in zip(samples, labels)]


def test_texts(folder):
    """stage pt: the prompt's column is the text, with its end token."""
    write(folder, {"texts": ({"columns": {"prompt": "text"}}, [{"text": "Once upon a time"}, {"text": "the end"}])})
    model = directory_of("qwen2_5")
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(model)
    rows, _ = data_speed.ours(model, "texts", folder, packing=False, stage="pt", data={"dataset_info": str(folder)})
    wanted = [tokenizer(sample["_prompt"][0]["content"])["input_ids"] + [tokenizer.eos_token_id] for sample in theirs(folder, "texts")]
    assert [row["input_ids"] for row in rows] == wanted
