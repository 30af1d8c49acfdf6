"""Starts `trireme serve` for tests and talks to it: small models with a tokenizer of bytes. Compares nothing itself."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time
import urllib.request

import openai
import transformers

import tiny_models
from program import BUILD, MPIRUN

KEY = "a-secret-key"
VOCABULARY = 260  # of the tokenizer


def add_tokenizer(folder):
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(f"examples/chat/{name}", folder / name)


class Server:
    """A small model with a tokenizer of bytes and a chat template, served on a free port; or one that is there already."""

    def __init__(self, folder, *words, ranks=None, variables=None, model=None):
        self.folder = model or folder / "chat"
        if not self.folder.exists():
            self.write_model()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder)
        self.log = folder / f"log-{time.time_ns()}"
        command = [BUILD / "trireme", "serve", "--model", self.folder, "--port", "0", "--set", "model.dtype=fp32", *words]
        if ranks:
            command = [*MPIRUN, "-n", str(ranks), *command]
        self.process = subprocess.Popen([str(word) for word in command], stderr=self.log.open("w"),
                                        env={**os.environ, "OMP_NUM_THREADS": "1", **(variables or {})})
        self.url = self.await_url()
        self.client = openai.OpenAI(base_url=self.url, api_key=KEY, max_retries=0)

    def write_model(self):
        config = json.loads(pathlib.Path("examples/chat/config.json").read_text())
        config = transformers.Qwen3Config(**{**config, "num_hidden_layers": 2, "initializer_range": 0.3})
        tiny_models.write_model(config, self.folder)
        add_tokenizer(self.folder)
        end = transformers.AutoTokenizer.from_pretrained(self.folder).convert_tokens_to_ids("<|im_end|>")
        (self.folder / "generation_config.json").write_text(json.dumps({"eos_token_id": end}))

    def await_url(self):
        for _ in range(1200):
            text = self.log.read_text()
            if " at http://" in text:
                return text.split(" at ")[1].split(",")[0]
            assert self.process.poll() is None, text
            time.sleep(0.1)
        raise AssertionError(self.log.read_text())

    def metric(self, name):
        root = self.url.removesuffix("/v1")
        request = urllib.request.Request(root + "/metrics", headers={"Authorization": f"Bearer {KEY}"})
        for line in urllib.request.urlopen(request).read().decode().splitlines():
            if line.startswith(f"trireme:{name}{{"):
                return float(line.rsplit(" ", 1)[1])
        raise AssertionError(name)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)
