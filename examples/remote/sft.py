"""Supervised fine-tuning from a laptop: an adapter learns to answer chats, the server computes. sft.py URL [DATA.jsonl]
Needs `pip install tinker transformers` and a server: docs/remote.md."""
import json
import os
import random
import sys

import tinker
from tinker import types

BATCH, STEPS, RATE = 8, 30, 2e-3


def read_chat(tokenizer, messages):
    """A datum: question and answer, of which the answer alone is trained. Position i predicts token i + 1."""
    question, answer = (tokenizer.encode(message["content"] + "\n") for message in messages[-2:])
    tokens = question + answer
    weights = [0.0 if i + 1 < len(question) else 1.0 for i in range(len(tokens) - 1)]
    return types.Datum(
        model_input=types.ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={
            "target_tokens": types.TensorData(data=tokens[1:], dtype="int64", shape=[len(tokens) - 1]),
            "weights": types.TensorData(data=weights, dtype="float32", shape=[len(weights)])})


def main(url, file="examples/chat/days.jsonl"):
    service = tinker.ServiceClient(base_url=url, api_key=os.environ.get("TINKER_API_KEY", "tml-any"))
    base = service.get_server_capabilities().supported_models[0].model_name
    client = service.create_lora_training_client(base_model=base, rank=8, seed=1)
    tokenizer = client.get_tokenizer()
    data = [read_chat(tokenizer, json.loads(line)["messages"]) for line in open(file)]
    draw = random.Random(1)
    for step in range(STEPS):
        batch = draw.sample(data, BATCH)
        passed = client.forward_backward(batch, "cross_entropy")
        stepped = client.optim_step(types.AdamParams(learning_rate=RATE))  # need not wait for the pass
        trained = sum(sum(datum.loss_fn_inputs["weights"].data) for datum in batch)
        print(f"step {step}: loss {passed.result().metrics['loss:sum'] / trained:.4f} per token", flush=True)
        stepped.result()
    print("saved", client.save_state("sft").result().path)


if __name__ == "__main__":
    main(*sys.argv[1:])
