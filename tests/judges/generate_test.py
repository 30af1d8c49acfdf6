#!/usr/bin/env python3
"""`trireme generate` against transformers' generate, in fp32: the same tokens for every family, under any layout and
batching of rows; text, conversations and chats; the sampling distribution; bad input. On device npu with --device npu:
some families and layouts; on cuda with --device cuda: every family on one rank."""
import argparse
import collections
import json
import math
import pathlib
import shutil
import sys
import tempfile

import torch
import transformers

import tiny_models
from expectations import expect, failures
from program import BUILD, failure_text, run_many, start, words_of

NEW, ROWS, CLEAR = 10, 6, 2e-3
FP32 = ["model.dtype=fp32"]
EXPERTS = ("qwen2_moe", "qwen3_moe", "mixtral", "deepseek_v2", "deepseek_v3")
Case = collections.namedtuple("Case", "family settings batch")
NPU_CASES = [Case(family, ["parallel.tensor=2"], 4) for family in ("qwen2", "deepseek_v3")]
NPU_CASES += [Case("llama3", ["parallel.pipeline=2"], 4), Case("mixtral", ["parallel.expert=2"], 2)]
DEVICE_RANKS = {"cpu": (1, 2, 4), "cuda": (1,)}
Judge = collections.namedtuple("Judge", "model rows wanted")


def likeliest(model, ids, count=NEW, ends=None):
    """The new tokens, and the smallest margin by which one of them won."""
    given = torch.tensor([ids])
    out = model.generate(given, attention_mask=torch.ones_like(given), do_sample=False, max_new_tokens=count,
                         eos_token_id=ends, pad_token_id=0, return_dict_in_generate=True, output_logits=True)
    best = torch.stack(out.logits)[:, 0].topk(2).values
    return out.sequences[0, len(ids):].tolist(), (best[:, 0] - best[:, 1]).min().item()


def clear_rows(model):
    """Rows of different length in which no token wins narrowly, since rounding could flip it, and that generate as many
    different tokens as possible."""
    written = [(row, *likeliest(model, row["input_ids"]))
               for row in tiny_models.make_rows(count=2 * ROWS, shortest=1, longest=24)]
    clear = [(row, tokens) for row, tokens, margin in written if margin > CLEAR]
    found = sorted(clear, key=lambda pair: -len(set(pair[1])))[:ROWS]
    assert len({len(row["input_ids"]) for row, _ in found}) > 3, "rows of too few lengths"
    assert all(len(set(tokens)) > 4 for _, tokens in found), "rows that repeat a token"
    return found


def make_judge(folder, family):
    """Makes a token that the first row generates in the middle the EOS token: rows end at different steps."""
    folder.mkdir()
    config = tiny_models.config_of(family, num_hidden_layers=4, initializer_range=0.2)  # smaller models repeat a token
    model = tiny_models.write_model(config, folder / "model")
    rows = clear_rows(model)
    tiny_models.write_rows(folder / "rows.jsonl", [row for row, _ in rows])
    end = rows[0][1][NEW // 2]
    (folder / "model" / "generation_config.json").write_text(json.dumps({"eos_token_id": [end]}))
    wanted = [likeliest(model, row["input_ids"], ends=[end])[0] for row, _ in rows]
    assert len(wanted[0]) <= NEW // 2 + 1 and max(map(len, wanted)) == NEW, "no row ends early, or all do"
    return Judge(folder / "model", folder / "rows.jsonl", wanted)


def layouts(ranks):
    """Cases by number of ranks, each family under each kind of layout."""
    for family in tiny_models.FAMILIES:
        if ranks == 1:
            yield Case(family, [], 1)
            yield Case(family, [], 4)
        if ranks == 2:
            yield Case(family, ["parallel.tensor=2"], 3)
            yield Case(family, ["parallel.pipeline=2"], 4)
            if family in EXPERTS:
                yield Case(family, ["parallel.expert=2"], 2)
        if ranks == 4:
            yield Case(family, ["parallel.tensor=2", "parallel.pipeline=2"], 5)
            if family in EXPERTS:
                yield Case(family, ["parallel.tensor=2", "parallel.expert=2"], 2)
    if ranks == 2:
        yield Case("qwen2", [], 2)  # data parallel
        yield Case("qwen2", ["parallel.zero=3"], 1)
        yield Case("mixtral", ["parallel.tensor=2", "parallel.expert_tensor=2"], 1)
    if ranks == 4:
        yield Case("qwen2", ["parallel.pipeline=2", "parallel.schedule=dualpipev"], 1)
        yield Case("qwen3", ["parallel.pipeline=2", "parallel.schedule=interleaved", "parallel.virtual_stages=2"], 2)


def judge_together(ranks, cases, judges, folder, device):
    """All cases of one number of ranks in one launch of the program, which prints a line per row."""
    commands = []
    for case in cases:
        judge = judges[case.family]
        commands.append(["generate", "--model", judge.model, "--rows", judge.rows, "--max-new-tokens", NEW, "--batch",
                         case.batch, *words_of([f"device={device}", *FP32, *case.settings])])
    commands.append(["check", "--npu-ops", "--json"] if device == "npu" else ["--version"])
    result = run_many(None if (device, ranks) == ("cuda", 1) else ranks, commands)
    expect(result.returncode == 0, f"{ranks} ranks on device {device} generate", failure_text(result)[-3000:])
    lines = result.stdout.splitlines()
    for number, case in enumerate(cases):
        found = [json.loads(line) for line in lines[number * ROWS:(number + 1) * ROWS]]
        wanted = judges[case.family].wanted
        expect([line["output_ids"] for line in found] == wanted,
               f"{case.family} on {ranks} ranks {device} {' '.join(case.settings)} batch {case.batch}",
               f"\n{found}\nwanted {wanted}")
        expect(all(line["finish_reason"] == ("length" if len(line["output_ids"]) == NEW else "stop") for line in found),
               f"{case.family}: the finish reasons", str(found))
    if device == "npu" and result.returncode == 0:
        operators = json.loads(lines[-1])["operators"]
        unknown = [entry["name"] for entry in operators if entry["calls"] > 0 and not entry["used"]]
        expect(not unknown, "all operators called are in core/npu/used_operators.inc", str(unknown))


def judge_tokens(folder, device):
    each = {ranks: list(layouts(ranks)) for ranks in DEVICE_RANKS[device]} if device != "npu" else {2: NPU_CASES}
    families = {case.family for cases in each.values() for case in cases}
    judges = {family: make_judge(folder / family, family) for family in sorted(families)}
    for ranks, cases in each.items():
        judge_together(ranks, cases, judges, folder, device)


class Writer:
    """A small model with a byte tokenizer and a chat template: `generate` and transformers side by side."""

    def __init__(self, folder):
        self.folder, config = folder / "chat", json.loads(pathlib.Path("examples/chat/config.json").read_text())
        config = transformers.Qwen3Config(**{**config, "num_hidden_layers": 2, "initializer_range": 0.3})
        self.model = tiny_models.write_model(config, self.folder)
        for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            shutil.copy(f"examples/chat/{name}", self.folder / name)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder)
        self.end = self.tokenizer.convert_tokens_to_ids("<|im_end|>")
        (self.folder / "generation_config.json").write_text(json.dumps({"eos_token_id": self.end}))

    def run(self, *words, ranks=None, stdin="", settings=()):
        command = [BUILD / "trireme", "generate", "--model", self.folder, *words, *words_of([*FP32, *settings])]
        return start(ranks, command, stdin=stdin)

    def text_of(self, ids, count):
        tokens, _ = likeliest(self.model, ids, count, [self.end])
        return self.tokenizer.decode(tokens, skip_special_tokens=True), tokens

    def answer(self, messages, count):
        ids = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False)
        return self.text_of(ids, count)


def judge_text(folder):
    writer = Writer(folder)
    prompt, count = "Montag, Dienstag — größer", 40
    wanted, _ = writer.text_of(writer.tokenizer(prompt)["input_ids"], count)
    words = ["--prompt", prompt, "--max-new-tokens", count]
    plain = writer.run(*words)
    expect(plain.returncode == 0 and plain.stdout == wanted + "\n", "a prompt's text",
           f"{wanted!r} {failure_text(plain)}")
    expect("tokens in" in plain.stderr, "the speed is printed", plain.stderr)
    expect(any(ord(letter) > 127 for letter in wanted), "it has characters of several tokens", wanted)
    streamed = writer.run(*words, "--stream")
    expect(streamed.stdout == plain.stdout, "streamed text equals plain text", failure_text(streamed))
    piped = writer.run("--max-new-tokens", count, stdin=prompt + "\n", ranks=2, settings=["parallel.tensor=2"])
    expect(piped.stdout == plain.stdout, "a prompt on standard input, two ranks", failure_text(piped))
    stop = wanted[len(wanted) // 2:len(wanted) // 2 + 2]
    for more in ([], ["--stream"]):
        stopped = writer.run(*words, "--stop", "no such text", "--stop", stop, *more)
        expect(stopped.stdout == wanted[:wanted.index(stop)] + "\n", f"the stop string {stop!r} {more}",
               failure_text(stopped))
    judge_checkpoint(folder, writer, words, plain.stdout)
    judge_conversations(writer, folder)
    judge_chat(writer)
    judge_sampling(writer, folder)
    refusals(writer, folder)


def judge_checkpoint(folder, writer, words, wanted):
    """A checkpoint is a model directory like any other."""
    start(None, [BUILD / "trireme", "convert", "--from", writer.folder, "--to", folder / "checkpoint-1"])
    result = start(None, [BUILD / "trireme", "generate", "--model", folder / "checkpoint-1", *words, *words_of(FP32)])
    expect(result.stdout == wanted, "from a checkpoint", failure_text(result))


def judge_conversations(writer, folder):
    conversations = [[{"role": "user", "content": "Which day follows Monday?"}],
                     [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
                      {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "Bye"}]]
    wanted = [writer.answer(messages, 12) for messages in conversations]
    one, both = folder / "one.json", folder / "both.json"
    one.write_text(json.dumps(conversations[0]))
    both.write_text(json.dumps(conversations))
    result = writer.run("--messages", one, "--max-new-tokens", 12)
    expect(result.stdout == wanted[0][0] + "\n", "a conversation's answer", failure_text(result))
    lines = writer.run("--messages", both, "--max-new-tokens", 12)
    found = [json.loads(line) for line in lines.stdout.splitlines()]
    expect([(line["text"], line["output_ids"]) for line in found] == wanted, "several conversations",
           failure_text(lines))


def judge_chat(writer):
    """Two turns, the second continuing the first, and a third in a new conversation."""
    def asks(*texts):
        messages = []
        for text in texts:
            messages.append({"role": "user", "content": text})
            messages.append({"role": "assistant", "content": writer.answer(messages, 8)[0]})
        return [message["content"] for message in messages if message["role"] == "assistant"]
    wanted = [*asks("Monday?", "And then?"), *asks("And then?")]
    result = writer.run("--chat", "--max-new-tokens", 8, ranks=2, settings=["parallel.pipeline=2"],
                        stdin="Monday?\n\nAnd then?\n/new\nAnd then?\n/quit\nunread\n")
    expect(result.returncode == 0 and result.stdout == "".join(f"{text}\n" for text in wanted), "a chat",
           f"{wanted}\n{failure_text(result)}")


def judge_sampling(writer, folder, rows=600):
    """The first tokens of many equal rows are distributed as transformers' own filters specify."""
    ids, path = writer.tokenizer("Tuesday")["input_ids"], folder / "equal.jsonl"
    path.write_text((json.dumps({"input_ids": ids}) + "\n") * rows)
    with torch.no_grad():
        scores = writer.model(torch.tensor([ids])).logits[:, -1]
    for temperature, top_k, top_p in ((3.0, 0, 1.0), (3.0, 9, 1.0), (2.0, 0, 0.7), (2.5, 12, 0.8)):
        filters = transformers.LogitsProcessorList([transformers.TemperatureLogitsWarper(temperature)])
        filters += [transformers.TopKLogitsWarper(top_k)] if top_k else []
        filters += [transformers.TopPLogitsWarper(top_p)] if top_p < 1 else []
        wanted = filters(torch.tensor([ids]), scores.clone()).softmax(-1)[0]
        words = ["--rows", path, "--max-new-tokens", 1, "--batch", 64, "--temperature", temperature, "--top-k", top_k,
                 "--top-p", top_p, "--seed", 7]
        result = writer.run(*words)
        drawn = collections.Counter(json.loads(line)["output_ids"][0] for line in result.stdout.splitlines())
        outside = [token for token in drawn if wanted[token] == 0]
        # Pearson's statistic is within five deviations of its mean; tokens with few expected draws are pooled.
        expected = [rows * share.item() for share in wanted]
        rare = [token for token, share in enumerate(expected) if 0 < share < 5]
        groups = [[token] for token, share in enumerate(expected) if share >= 5] + ([rare] if rare else [])
        pairs = [(sum(drawn[token] for token in group), sum(expected[token] for token in group)) for group in groups]
        statistic, freedom = sum((found - mean) ** 2 / mean for found, mean in pairs), max(len(pairs) - 1, 1)
        text = f"temperature {temperature} top-k {top_k} top-p {top_p}: {len(pairs)} groups, statistic {statistic:.1f}"
        expect(sum(drawn.values()) == rows and not outside and statistic < freedom + 5 * math.sqrt(2 * freedom), text,
               f"outside: {outside}\n{failure_text(result)[-500:]}")
    again = writer.run(*words)
    expect(again.stdout == result.stdout, "the same seed draws the same tokens")


def refusals(writer, folder):
    empty, long, bad = folder / "empty.json", folder / "long.jsonl", folder / "bad.jsonl"
    empty.write_text("[]")
    long.write_text(json.dumps({"input_ids": [1] * 512}) + "\n")
    bad.write_text('{"input_ids": [1]}\n{"input_ids": [1, 260]}\n')
    none = folder / "none.jsonl"
    none.write_text('{"input_ids": []}\n')
    bare = folder / "bare"
    bare.mkdir()
    shutil.copy(writer.folder / "config.json", bare)
    rows = ["--rows", folder / "equal.jsonl"]
    cases = [(["--prompt", "a", *rows], ["--prompt", "--rows", "keep one"]),
             (["--prompt", ""], ["no prompt", "--messages"]),
             (["--messages", empty], ["empty.json", "list of messages"]),
             (["--rows", long], ["long.jsonl: row 1", "512", "max_position_embeddings"]),
             (["--rows", bad], ["bad.jsonl:2", "260"]),
             (["--rows", none], ["none.jsonl:1", "empty"]),
             ([*rows, "--temperature", "-1"], ["--temperature -1", "at least 0"]),
             ([*rows, "--top-p", "1.5"], ["--top-p 1.5", "up to 1"]),
             ([*rows, "--top-p", "0"], ["--top-p 0", "above 0"]),
             ([*rows, "--max-new-tokens", "0"], ["--max-new-tokens 0", "at least 1"]),
             ([*rows, "--stop", ""], ["--stop", "empty"]),
             ([*rows, "--adapters", "a"], ["adapter_config.json"]),
             ([*rows, "--set", "parallel.context=2"], ["parallel.context = 2", "set it to 1"]),
             ([*rows, "--model", bare], ["given twice"])]
    for words, wanted in cases:
        refused(writer.run(*words), wanted)
    refused(start(None, [BUILD / "trireme", "generate", "--model", bare, "--prompt", "a"]), ["tokenizer.json"])
    refused(start(None, [BUILD / "trireme", "generate", "--model", folder / "nothing", *rows]), ["config.json"])
    refused(writer.run(ranks=2, settings=["parallel.tensor=2"]), ["no prompt", "standard input"])


def refused(result, wanted):
    ends = result.returncode == 2 and len(result.stderr.splitlines()) == 1 and not result.stdout
    expect(ends and all(word in result.stderr for word in wanted), f"refused: {result.stderr.strip()}",
           failure_text(result))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "npu", "cuda"])
    device = parser.parse_args().device
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        judge_tokens(pathlib.Path(scratch), device)
        if device == "cpu":
            judge_text(pathlib.Path(scratch))
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
