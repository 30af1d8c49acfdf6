"""By hand: remote training of many models at once against the same requests one after the other, on one server and in one run
(the 107M shape, fp32, two threads). Every model sends a few short rows per step; a step is forward_backward and optim_step, and
each model waits for its answers before its next step, as a plain loop does. Prints one JSON line per round (tokens per second of
both, seconds of a step of a model that is alone, and the server's cpu seconds of both, which other programs disturb less) and one
with the ratios. Asserts only that the losses of both are the same.

  tests/parity/run tests/parity/remote_speed.py [--models 8] [--rows 2] [--tokens 8] [--steps 4] [--rank 8] [--rounds 3]
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

SHAPE = dict(architectures=["Qwen3ForCausalLM"], model_type="qwen3", vocab_size=32000, hidden_size=768, intermediate_size=2048,
             num_hidden_layers=12, num_attention_heads=12, num_key_value_heads=4, head_dim=64, max_position_embeddings=2048,
             rms_norm_eps=1e-6, rope_theta=10000.0, tie_word_embeddings=True, hidden_act="silu")


class Client:
    """The protocol's JSON dialect, as little of it as a loop needs."""

    def __init__(self, url):
        self.url = url
        self.session = self.post("create_session", {})["session_id"]

    def post(self, path, body):
        request = urllib.request.Request(f"{self.url}/api/v1/{path}", json.dumps(body).encode(),
                                         {"X-API-Key": "tml-speed", "Content-Type": "application/json"})
        return json.loads(urllib.request.urlopen(request, timeout=120).read())

    def result(self, future):
        while True:
            try:
                found = self.post("retrieve_future", {"request_id": future["request_id"]})
                assert "error" not in found, found
                return found
            except urllib.error.HTTPError as error:
                assert error.code == 408, error.read()

    def create(self, number, rank, seed):
        body = {"session_id": self.session, "model_seq_id": number, "base_model": "speed", "lora_config": {"rank": rank, "seed": seed}}
        return self.result(self.post("create_model", body))["model_id"]


class Loop:
    """One model and its data."""

    def __init__(self, client, number, options):
        seed = number % options.models
        self.client, self.model, self.seq, self.losses = client, client.create(number, options.rank, seed), 0, []
        draw = random.Random(seed)
        self.data = []
        for _ in range(options.rows):
            tokens = [draw.randrange(32000) for _ in range(options.tokens + 1)]
            self.data.append({"model_input": {"chunks": [{"type": "encoded_text", "tokens": tokens[:-1]}]},
                              "loss_fn_inputs": {"target_tokens": {"data": tokens[1:], "dtype": "int64", "shape": [options.tokens]},
                                                 "weights": {"data": [1.0] * options.tokens, "dtype": "float32", "shape": [options.tokens]}}})

    def step(self):
        passed = self.client.post("forward_backward", {"model_id": self.model, "seq_id": self.seq + 1,
                                                       "forward_backward_input": {"data": self.data, "loss_fn": "cross_entropy"}})
        stepped = self.client.post("optim_step", {"model_id": self.model, "seq_id": self.seq + 2, "adam_params": {"learning_rate": 1e-4}})
        self.seq += 2
        self.losses.append(self.client.result(passed)["metrics"]["loss:sum"])
        self.client.result(stepped)

    def run(self, steps):
        for _ in range(steps):
            self.step()


def one_after_the_other(loops, steps):
    for loop in loops:
        loop.run(steps)


def at_once(loops, steps):
    threads = [threading.Thread(target=loop.run, args=(steps,)) for loop in loops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def cpu_seconds(pid):
    user, system = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def timed(pid, call, *words):
    """Seconds that pass, and those that the server computes."""
    start, cpu = time.monotonic(), cpu_seconds(pid)
    call(*words)
    return time.monotonic() - start, cpu_seconds(pid) - cpu


def measure(url, pid, options):
    client = Client(url)
    apart = [Loop(client, number, options) for number in range(options.models)]
    together = [Loop(client, options.models + number, options) for number in range(options.models)]
    for loop in apart + together:
        loop.run(1)  # warms up
    trained = options.models * options.rows * options.tokens * options.steps
    ratios, of_cpu = [], []
    for number in range(options.rounds):
        (slow, slow_cpu), (fast, fast_cpu) = timed(pid, one_after_the_other, apart, options.steps), timed(pid, at_once, together, options.steps)
        ratios.append(slow / fast)
        of_cpu.append(slow_cpu / fast_cpu)
        print(json.dumps({"round": number, "one_after_the_other": round(trained / slow, 1), "at_once": round(trained / fast, 1),
                          "step_alone": round(slow / options.models / options.steps, 3), "cpu_apart": round(slow_cpu, 2),
                          "cpu_at_once": round(fast_cpu, 2)}), flush=True)
    for one, other in zip(apart, together):
        assert all(abs(a - b) < 1e-4 * abs(a) for a, b in zip(one.losses, other.losses, strict=True)), (one.losses, other.losses)
    print(json.dumps({"tokens_per_request": options.rows * options.tokens, "models": options.models,
                      "ratio": round(statistics.median(ratios), 2), "least": round(min(ratios), 2), "most": round(max(ratios), 2),
                      "ratio_of_cpu": round(statistics.median(of_cpu), 2)}))


def main():
    parser = argparse.ArgumentParser()
    for name, value in (("models", 8), ("rows", 2), ("tokens", 8), ("steps", 4), ("rank", 8), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name) / "speed"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(SHAPE))
        for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            shutil.copy(f"examples/chat/{file}", folder / file)
        log = pathlib.Path(name) / "log"
        command = [pathlib.Path(os.environ.get("TRIREME_BUILD", "build")) / "trireme", "serve", "--model", folder, "--port", "0", "--max-total-tokens", "4096", "--set", "model.init=random",
                   "--set", "model.dtype=fp32", "--train", "--train-directory", pathlib.Path(name) / "kept",
                   "--train-max-rank", options.rank, "--train-max-models", 2 * options.models, "--train-in-memory", 2 * options.models,
                   "--train-together", options.models]
        server = subprocess.Popen([str(word) for word in command], stderr=log.open("w"), env={**os.environ, "OMP_NUM_THREADS": "2"})
        try:
            while " at http://" not in log.read_text():
                assert server.poll() is None, log.read_text()
                time.sleep(0.1)
            measure(log.read_text().split(" at ")[1].split("/v1")[0], server.pid, options)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()
        print(log.read_text()[-300:])


if __name__ == "__main__":
    main()
