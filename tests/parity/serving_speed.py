"""By hand: `trireme serve` against transformers in one run, on the same threads and weights (the 107M shape, bf16):

- burst: requests that want 16 to 256 new tokens, all at once;
- staggered: the same with arrivals of a fixed seed;
- chats: conversations of four turns, each of which repeats all before it.

The peers are `transformers serve --continuous-batching` behind the same HTTP client, and `generate` in static batches, which
gets all prompts of the burst at once and waits for the longest row of each batch. Servers run in turn, ours before and after
the peer, so that a machine that changes under load shows in the two. Prints one JSON line per side and workload as it ends:
tokens per second, time to the first token, prompt tokens and those of them that were in the cache (the peer does not say);
then one with the ratios per workload. Asserts only that the tokens were computed. The defaults take about ten minutes where
both cores are free; --rows 4 --longest 64 --chats 2 two or three.

  python3 -m pip install --target build/serving-peer fastapi==0.162.4 uvicorn==0.54.0   # what the peer's server needs beside it
  PYTHONPATH=build/serving-peer tests/parity/run tests/parity/serving_speed.py [--rows 8] [--longest 256] [--batch 8] [--chats 4]
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import torch
import transformers

BUILD = pathlib.Path("build")
PROMPT, TURNS, ANSWER = 64, 4, 16
SHAPE = dict(vocab_size=32000, hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12,
             num_key_value_heads=4, head_dim=64, max_position_embeddings=2048, tie_word_embeddings=True)


def make_model(folder):
    """Without an end token: every row gets as many tokens as it wants. Only letters have embeddings, which are the head's
    weights, too: every token that is the most likely one is a text at once, on both sides."""
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(f"examples/chat/{name}", folder / name)
    letters = transformers.AutoTokenizer.from_pretrained(folder)("abcdefghijklmnopqrstuvwxyz ")["input_ids"]
    torch.manual_seed(1)
    config = transformers.Qwen3Config(**SHAPE, eos_token_id=None, bos_token_id=None, pad_token_id=0)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    others = torch.ones(SHAPE["vocab_size"], dtype=torch.bool)
    others[letters] = False
    model.get_input_embeddings().weight.data[others] = 0
    model.generation_config = transformers.GenerationConfig(do_sample=False, pad_token_id=0)
    model.save_pretrained(folder)
    return model.eval()


class Texts:
    """Texts of known numbers of tokens, each beginning in its own way."""

    def __init__(self, folder):
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.draw = random.Random(5)

    def make(self, tokens):
        words = ""
        while len(self.tokenizer(words)["input_ids"]) < tokens:
            words += " " + "".join(self.draw.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(5))
        return words.strip()


def make_rows(count, longest, texts):
    lengths = [round(16 * (longest / 16) ** (i / max(count - 1, 1))) for i in range(count)]
    random.Random(7).shuffle(lengths)
    return [(texts.make(PROMPT), length) for length in lengths]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def server(name, folder, options):
    """The address of a server that has answered once."""
    port = free_port()
    ours = [BUILD / "trireme", "serve", "--model", folder, "--served-model-name", str(folder), "--port", str(port),
            "--max-rows", str(options.batch), "--set", "device=cpu"]
    theirs = [pathlib.Path(sys.executable).parent / "transformers", "serve", folder, "--continuous-batching", "--device", "cpu",
              "--dtype", "bfloat16", "--port", str(port), "--host", "127.0.0.1", "--cb-block-size", "32", "--cb-num-blocks", "1024",
              "--cb-max-batch-tokens", "2048"]
    log = folder / f"{name}.log"
    env = {**os.environ, "OMP_NUM_THREADS": str(options.threads), "MKL_NUM_THREADS": str(options.threads)}
    process = subprocess.Popen(ours if name == "ours" else theirs, stdout=log.open("w"), stderr=subprocess.STDOUT, env=env)
    address = f"http://127.0.0.1:{port}/v1"
    try:
        while True:
            assert process.poll() is None, log.read_text()
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                complete(address, folder, "warm up", 4)
                break
            time.sleep(0.5)
        yield address
    except Exception:
        print(log.read_text()[-3000:], file=sys.stderr)
        raise
    finally:
        process.terminate()
        process.wait()


def complete(address, model, prompt, count):
    """Seconds to the first piece of the stream that has text, the whole text, and the usage that the server reports."""
    body = {"model": str(model), "prompt": prompt, "max_tokens": count, "temperature": 0, "stream": True,
            "stream_options": {"include_usage": True}}
    request = urllib.request.Request(address + "/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    begin, first, text, usage = time.perf_counter(), None, "", {}
    with urllib.request.urlopen(request, timeout=3600) as answer:
        for line in answer:
            if not line.startswith(b"data: {"):
                continue
            piece = json.loads(line[6:])
            text += "".join(choice.get("text") or "" for choice in piece.get("choices", []))
            first = first or (time.perf_counter() - begin if text else None)
            usage = piece.get("usage") or usage
    made = usage.get("completion_tokens", count)
    assert made == count, f"{made} tokens of {count}"
    return first, text, usage


def figures(answers, seconds):
    """answers: what complete() returned."""
    firsts = sorted(first for first, _, _ in answers if first is not None)
    tokens = sum(usage["completion_tokens"] for _, _, usage in answers)
    cached = [(usage.get("prompt_tokens_details") or {}).get("cached_tokens") for _, _, usage in answers]
    return {"tokens": tokens, "seconds": round(seconds, 2), "tokens_per_second": round(tokens / seconds, 2),
            "first_token_p50": round(statistics.median(firsts), 3), "first_token_p95": round(firsts[int(0.95 * (len(firsts) - 1))], 3),
            "prompt_tokens": sum(usage["prompt_tokens"] for _, _, usage in answers),
            "cached_tokens": None if None in cached else sum(cached)}


def served(address, model, rows, gap=0.0):
    draw, at = random.Random(3), 0.0
    begin = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(len(rows)) as pool:
        waiting = []
        for prompt, count in rows:
            time.sleep(max(begin + at - time.perf_counter(), 0))
            waiting.append(pool.submit(complete, address, model, prompt, count))
            at += draw.expovariate(1 / gap) if gap else 0
        answers = [future.result() for future in waiting]
    return figures(answers, time.perf_counter() - begin)


def chats(address, model, texts):
    """Each turn asks with all before it."""
    histories = [turns[0] for turns in texts]
    answers, begin = [], time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(len(texts)) as pool:
        for turn in range(TURNS):
            done = list(pool.map(lambda text: complete(address, model, text, ANSWER), histories))
            answers += done
            if turn + 1 < TURNS:
                histories = [text + answer + " " + turns[turn + 1] for text, (_, answer, _), turns in zip(histories, done, texts)]
    return figures(answers, time.perf_counter() - begin)


def all_workloads(name, address, folder, rows, texts, options):
    again = [("again " + prompt, count) for prompt, count in rows]  # other beginnings: no prompt is in the cache
    works = {"burst": lambda: served(address, folder, rows), "chats": lambda: chats(address, folder, texts),
             "staggered": lambda: served(address, folder, again, options.gap)}
    found = {}
    for workload, work in works.items():
        found[workload] = work()
        print(json.dumps({"side": name, "workload": workload} | found[workload]), flush=True)
    return found


def static(model, tokenizer, rows, batch):
    """Tokens that were asked for; the steps of rows that were done earlier are the waste of static batches."""
    begin = time.perf_counter()
    for first in range(0, len(rows), batch):
        part = rows[first:first + batch]
        inputs = tokenizer([prompt for prompt, _ in part], return_tensors="pt", padding=True, padding_side="left")
        most = max(count for _, count in part)
        with torch.no_grad():
            made = model.generate(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], do_sample=False,
                                  pad_token_id=0, min_new_tokens=most, max_new_tokens=most)
        assert made.shape[1] == inputs["input_ids"].shape[1] + most
    return sum(count for _, count in rows) / (time.perf_counter() - begin)


def report(workload, ours, theirs, batches):
    """ours: before and after the peer."""
    mean = statistics.mean(found["tokens_per_second"] for found in ours)
    first = statistics.mean(found["first_token_p50"] for found in ours)
    line = {"workload": workload, "tokens_per_second": round(mean, 2), "first_token_p50": round(first, 3),
            "ratio": round(mean / theirs["tokens_per_second"], 2),
            "first_token_ratio": round(theirs["first_token_p50"] / first, 2)}
    if workload == "burst":
        line["ratio_static"] = round(mean / batches, 2)
    print(json.dumps(line), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--longest", type=int, default=256, help="new tokens; the shortest row gets 16")
    parser.add_argument("--batch", type=int, default=8, help="rows at once of static batches, and of ours")
    parser.add_argument("--chats", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--gap", type=float, default=0.5, help="mean seconds between staggered arrivals")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        model, texts = make_model(folder), Texts(folder)
        rows = make_rows(options.rows, options.longest, texts)
        turns = [[texts.make(PROMPT) for _ in range(TURNS)] for _ in range(options.chats)]
        found = []
        for name in ("ours", "theirs", "ours"):
            with server(name, folder, options) as address:
                found.append(all_workloads(name, address, folder, rows, turns, options))
        static(model, texts.tokenizer, [(prompt, 4) for prompt, _ in rows[:2]], options.batch)
        batches = static(model, texts.tokenizer, rows, options.batch)
        print(json.dumps({"side": "static", "workload": "burst", "tokens_per_second": round(batches, 2)}), flush=True)
        for workload in found[0]:
            ours, theirs, again = (run[workload] for run in found)
            report(workload, (ours, again), theirs, batches)


if __name__ == "__main__":
    main()
