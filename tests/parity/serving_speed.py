"""By hand: `trireme serve` against transformers in one run, on the same threads and weights (the 107M shape, bf16): requests
that want 16 to 256 new tokens, all at once, and chats of four turns whose beginnings repeat. transformers' peer is
`generate` in static batches, which gets the prompts as they are; `--continuous` adds its `generate_batch`. Prints tokens per
second and ratios; asserts nothing.

  tests/parity/run tests/parity/serving_speed.py [--rows 16] [--batch 8] [--threads 2] [--continuous]
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import time
import urllib.request

import torch
import transformers

BUILD = pathlib.Path("build")
PROMPT = 64
SHAPE = dict(vocab_size=32000, hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12,
             num_key_value_heads=4, head_dim=64, max_position_embeddings=2048, tie_word_embeddings=True)


def make_model(folder):
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(transformers.Qwen3Config(**SHAPE), dtype=torch.bfloat16)
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(f"examples/chat/{name}", folder / name)
    return model.eval()


def make_rows(count):
    draw = random.Random(5)
    lengths = [round(16 * 16 ** (i / max(count - 1, 1))) for i in range(count)]
    draw.shuffle(lengths)
    return [([draw.randrange(1, 31999) for _ in range(PROMPT)], length) for length in lengths]


class Server:
    def __init__(self, folder, threads, batch):
        self.log = folder / "log"
        self.process = subprocess.Popen(
            [BUILD / "trireme", "serve", "--model", folder, "--served-model-name", "m", "--port", "0", "--max-rows", str(batch),
             "--set", "device=cpu"], stderr=self.log.open("w"), env={**os.environ, "OMP_NUM_THREADS": str(threads)})
        while " at http://" not in self.log.read_text():
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.1)
        self.url = self.log.read_text().split(" at ")[1].split(",")[0]

    def complete(self, ids, count):
        body = {"model": "m", "prompt": ids, "max_tokens": count, "temperature": 0, "ignore_eos": True, "stream": True,
                "logprobs": 0, "stream_options": {"include_usage": True}}
        request = urllib.request.Request(self.url + "/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        begin, first, usage = time.perf_counter(), None, None
        with urllib.request.urlopen(request, timeout=600) as answer:
            for line in answer:
                if line.startswith(b"data: {"):
                    first = first or time.perf_counter() - begin
                    usage = json.loads(line[6:]).get("usage") or usage
        return usage["completion_tokens"], first, usage["prompt_tokens_details"]["cached_tokens"]


def served(server, rows):
    begin = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(len(rows)) as pool:
        done = list(pool.map(lambda row: server.complete(*row), rows))
    seconds = time.perf_counter() - begin
    firsts = sorted(first for _, first, _ in done)
    return sum(count for count, _, _ in done) / seconds, firsts[len(firsts) // 2], sum(cached for _, _, cached in done)


def static(model, rows, batch):
    """Tokens that were asked for; the steps of rows that were done earlier are the waste of static batches."""
    begin = time.perf_counter()
    for first in range(0, len(rows), batch):
        part = rows[first:first + batch]
        ids = torch.tensor([ids for ids, _ in part])
        most = max(count for _, count in part)
        with torch.no_grad():
            model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, pad_token_id=0, eos_token_id=None,
                           min_new_tokens=most, max_new_tokens=most)
    return sum(count for _, count in rows) / (time.perf_counter() - begin)


def continuous(model, rows):
    """Each row to the longest wanted length, of which only the wanted tokens count: it takes one limit for all."""
    most = max(count for _, count in rows)
    config = transformers.GenerationConfig(max_new_tokens=most, do_sample=False, eos_token_id=-1, pad_token_id=0)
    begin = time.perf_counter()
    outputs = model.generate_batch(inputs=[ids for ids, _ in rows], generation_config=config)
    made = sum(len(output.generated_tokens) for output in outputs.values())
    return made / (time.perf_counter() - begin)


def chats(server, turns=4, count=8):
    """Tokens read again in each turn; how many of them the cache had."""
    draw = random.Random(9)
    histories = [[draw.randrange(1, 31999) for _ in range(PROMPT)] for _ in range(count)]
    asked = cached = 0
    begin = time.perf_counter()
    for _ in range(turns):
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            done = list(pool.map(lambda ids: server.complete(ids, 16), histories))
        asked += sum(map(len, histories))
        cached += sum(found for _, _, found in done)
        histories = [ids + [draw.randrange(1, 31999) for _ in range(PROMPT)] for ids in histories]
    return turns * count * 16 / (time.perf_counter() - begin), cached / asked


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--continuous", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        model, rows = make_model(folder), make_rows(options.rows)
        server = Server(folder, options.threads, options.batch)
        served(server, rows[:2])  # warm
        ours, first, _ = served(server, rows)
        chat, share = chats(server)
        server.process.terminate()
        server.process.wait()
        static(model, [(ids, 4) for ids, _ in rows[:2]], options.batch)
        theirs = static(model, rows, options.batch)
        result = {"rows": options.rows, "batch": options.batch, "tokens_per_second": round(ours, 1), "first_token_p50": round(first, 3),
                  "static_tokens_per_second": round(theirs, 1), "ratio_static": round(ours / theirs, 2),
                  "chat_tokens_per_second": round(chat, 1), "chat_cached_share": round(share, 2)}
        if options.continuous:
            peer = continuous(model, rows)
            result |= {"continuous_tokens_per_second": round(peer, 1), "ratio_continuous": round(ours / peer, 2)}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
