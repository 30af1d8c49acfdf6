"""Tokens and masks of preference records against TRL's: generated records of every format, with the real tokenizers and
chat templates of Qwen3 and Llama 3.1. Equal, token by token."""
import json
import subprocess
import types

import preference_peers  # offline settings come with it
import datasets
import pytest
import transformers
import trl

import conversations
import real_tokenizers
from program import BUILD

OPTIONS = ("full",)
COUNT, ALL = 100, 500  # of each format; all with --full
LENGTH = 4096


def sentence(generator):
    return conversations.text(generator, 14, injected=False)


def dialogue(generator):
    """Up to a question; never without words."""
    messages = [{"role": "system", "content": "s" + sentence(generator)}] if generator.random() < 0.4 else []
    for _ in range(generator.randrange(3)):
        messages += [{"role": "user", "content": "q" + sentence(generator)},
                     {"role": "assistant", "content": "a" + sentence(generator)}]
    return [*messages, {"role": "user", "content": "q" + sentence(generator)}]


def sides(generator):
    return "good" + sentence(generator), "bad" + sentence(generator)


def said(text):
    return [{"role": "assistant", "content": text}]


def share_gpt(messages):
    names = {"system": "system", "user": "human", "assistant": "gpt"}
    return [{"from": names[message["role"]], "value": message["content"]} for message in messages]


# Each gives a record of ours and the same as TRL's columns.
def texts(generator):
    chosen, rejected = sides(generator)
    record = {"prompt": "q" + sentence(generator), "chosen": chosen, "rejected": rejected}
    return record, record


def implicit_texts(generator):
    prompt, (chosen, rejected) = "q" + sentence(generator) + " ", sides(generator)
    record = {"chosen": prompt + chosen, "rejected": prompt + rejected}
    return record, trl.extract_prompt(record)


def messages(generator):
    chosen, rejected = sides(generator)
    record = {"prompt": dialogue(generator), "chosen": said(chosen), "rejected": said(rejected)}
    return record, record


def implicit_messages(generator):
    prompt, (chosen, rejected) = dialogue(generator), sides(generator)
    record = {"chosen": prompt + said(chosen), "rejected": prompt + said(rejected)}
    return record, {"prompt": prompt, "chosen": said(chosen), "rejected": said(rejected)}


def swift(generator):
    prompt, (chosen, rejected) = dialogue(generator), sides(generator)
    record = {"messages": prompt + said(chosen), "rejected_response": rejected}
    if generator.random() < 0.5:
        record = {"messages": prompt + said(chosen), "rejected_messages": prompt + said(rejected)}
    return record, {"prompt": prompt, "chosen": said(chosen), "rejected": said(rejected)}


def alpaca(generator):
    question, more, (chosen, rejected) = "q" + sentence(generator), "i" + sentence(generator), sides(generator)
    record = {"instruction": question, "input": more, "chosen": chosen, "rejected": rejected}
    prompt = [{"role": "user", "content": f"{question}\n{more}"}]
    return record, {"prompt": prompt, "chosen": said(chosen), "rejected": said(rejected)}


def ranked(generator):
    prompt, (chosen, rejected) = dialogue(generator), sides(generator)
    record = {"conversations": share_gpt(prompt), "chosen": share_gpt(said(chosen))[0],
              "rejected": share_gpt(said(rejected))[0]}
    return record, {"prompt": prompt, "chosen": said(chosen), "rejected": said(rejected)}


def labelled_texts(generator):
    record = {"prompt": "q" + sentence(generator), "completion": sides(generator)[0], "label": generator.random() < 0.5}
    return record, record


def labelled_messages(generator):
    prompt, answer, label = dialogue(generator), sides(generator)[0], generator.random() < 0.5
    record = {"messages": prompt + said(answer), "label": label}
    if generator.random() < 0.5:
        record = {"conversations": share_gpt(prompt + said(answer)), "kto_tag": label}
    return record, {"prompt": prompt, "completion": said(answer), "label": label}


FORMATS = {"dpo": [texts, implicit_texts, messages, implicit_messages, swift, alpaca, ranked],
           "kto": [labelled_texts, labelled_messages]}


def theirs(stage, rows, tokenizer):
    """What TRL's trainer would train on, as rows of ids and masks."""
    maker = trl.DPOTrainer if stage == "dpo" else trl.KTOTrainer
    owner = types.SimpleNamespace(_tokenizer=tokenizer, calculate_KL=False, desirable_weight=1.0, undesirable_weight=1.0)
    arguments = types.SimpleNamespace(dataset_num_proc=None, max_length=LENGTH, truncation_mode="keep_start",
                                      per_device_train_batch_size=4)
    found = maker._prepare_dataset(owner, datasets.Dataset.from_list(rows), tokenizer, arguments, "train")
    keys = ("chosen_ids", "rejected_ids") if stage == "dpo" else ("completion_ids",)
    return [[(row["prompt_ids"] + row[key], len(row["prompt_ids"])) for key in keys] for row in found]


def ours(stage, rows, tokenizer_folder, folder):
    data = folder / "rows.jsonl"
    data.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    run = folder / "run.yaml"
    run.write_text(json.dumps({
        "stage": stage, "model": {"path": str(tokenizer_folder)}, "preference": {"share_prompt": False},
        "data": {"train": [str(data)], "shuffle": False, "packing": False, "max_length": LENGTH, "cache": str(folder / "cache")}}))
    probe = subprocess.run([BUILD / "tests/data/data_probe", run], capture_output=True, text=True)
    assert probe.returncode == 0, probe.stderr
    found = []
    for line in probe.stdout.splitlines():
        row = json.loads(line)
        borders = [*row["starts"], len(row["input_ids"])]
        answers = []
        for begin, end in zip(borders, borders[1:]):
            labels = row["labels"][begin:end]
            prompt = next(index for index, label in enumerate(labels) if label != -100)
            assert labels[prompt:] == row["input_ids"][begin + prompt:end]
            answers.append((row["input_ids"][begin:end], prompt))
        found.append(answers)
    return found


@pytest.mark.parametrize("make", [make for formats in FORMATS.values() for make in formats], ids=lambda make: make.__name__)
@pytest.mark.parametrize("name", ["qwen3", "llama3_1"])
def test_tokens(name, make, tmp_path, record_property, pytestconfig):
    count = ALL if pytestconfig.getoption("full") else COUNT
    tokenizer_folder = real_tokenizers.directory_of(name)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tokenizer_folder)
    stage = next(stage for stage, formats in FORMATS.items() if make in formats)
    generator = conversations.generator_of(FORMATS[stage].index(make))
    both = [make(generator) for _ in range(count)]
    found = ours(stage, [mine for mine, _ in both], tokenizer_folder, tmp_path)
    wanted = theirs(stage, [other for _, other in both], tokenizer)
    assert len(found) == len(wanted) == count
    different = [index for index, (mine, other) in enumerate(zip(found, wanted)) if mine != other]
    record_property("equal", count - len(different))
    assert not different, f"{len(different)} of {count} differ, the first: {both[different[0]][0]}"
