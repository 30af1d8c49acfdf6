"""Group-relative policy optimization from a laptop: an adapter is rewarded for answers of digits, the server samples and
trains. grpo.py URL
Needs `pip install tinker transformers` and a server: docs/remote.md."""
import os
import statistics
import sys

import tinker
from tinker import types

PROMPT, GROUP, GROUPS, TOKENS, STEPS, RATE = "A number: ", 16, 2, 6, 12, 1e-2


def reward_of(text):
    """The share of digits."""
    return sum(letter.isdigit() for letter in text) / max(1, len(text))


def datum_of(prompt, drawn, advantage):
    """The drawn tokens are trained, with the log-probabilities that they were drawn with; those of the prompt have no advantage."""
    tokens, before = prompt + drawn.tokens, len(prompt) - 1
    numbers = {"logprobs": [0.0] * before + drawn.logprobs, "advantages": [0.0] * before + [advantage] * len(drawn.tokens)}
    tensors = {name: types.TensorData(data=values, dtype="float32", shape=[len(values)]) for name, values in numbers.items()}
    targets = types.TensorData(data=tokens[1:], dtype="int64", shape=[len(tokens) - 1])
    return types.Datum(model_input=types.ModelInput.from_ints(tokens[:-1]), loss_fn_inputs={"target_tokens": targets, **tensors})


def main(url):
    service = tinker.ServiceClient(base_url=url, api_key=os.environ.get("TINKER_API_KEY", "tml-any"))
    base = service.get_server_capabilities().supported_models[0].model_name
    client = service.create_lora_training_client(base_model=base, rank=8, seed=1)
    tokenizer = client.get_tokenizer()
    prompt = tokenizer.encode(PROMPT)
    params = types.SamplingParams(max_tokens=TOKENS, temperature=1.0, stop=[])
    for step in range(STEPS):
        sampler = client.save_weights_and_get_sampling_client()
        waiting = [sampler.sample(types.ModelInput.from_ints(prompt), num_samples=GROUP, sampling_params=params) for _ in range(GROUPS)]
        data, rewards = [], []
        for group in waiting:
            drawn = group.result().sequences
            scores = [reward_of(tokenizer.decode(one.tokens)) for one in drawn]
            mean, spread = statistics.mean(scores), statistics.pstdev(scores) + 1e-4
            data += [datum_of(prompt, one, (score - mean) / spread / (GROUP * TOKENS)) for one, score in zip(drawn, scores)]
            rewards += scores
        client.forward_backward(data, "importance_sampling").result()
        client.optim_step(types.AdamParams(learning_rate=RATE)).result()
        print(f"step {step}: reward {statistics.mean(rewards):.4f}", flush=True)
    print("saved", client.save_state("grpo").result().path)


if __name__ == "__main__":
    main(*sys.argv[1:])
