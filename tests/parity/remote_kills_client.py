"""A loop of remote training that can be cut off at any moment and started again, run by the client package's own interpreter:
remote_kills_client.py URL JOURNAL STEPS. What the server has acknowledged is a line of the journal: a step's loss, a saved
path. It resumes from the journal's last saved path, as a user's script would. Exit status 3: the server failed it, clearly."""
import json
import os
import sys

import tinker
from tinker import types

KEY = "tml-kills"
TOKENS = [5, 17, 99, 3, 42, 8, 120, 77]


def datum():
    count = len(TOKENS) - 1
    return types.Datum(model_input=types.ModelInput.from_ints(TOKENS[:-1]),
                       loss_fn_inputs={"target_tokens": types.TensorData(data=TOKENS[1:], dtype="int64", shape=[count]),
                                       "weights": types.TensorData(data=[1.0] * count, dtype="float32", shape=[count])})


class Journal:
    def __init__(self, name):
        self.name = name
        lines = open(name).read().splitlines() if os.path.exists(name) else []
        self.entries = [json.loads(line) for line in lines]

    def add(self, **entry):
        self.entries.append(entry)
        with open(self.name, "a") as file:
            file.write(json.dumps(entry) + "\n")

    def last_saved(self):
        return next((entry for entry in reversed(self.entries) if "path" in entry), None)


def train(url, journal, steps):
    service = tinker.ServiceClient(base_url=url, api_key=KEY)
    saved = journal.last_saved()
    if saved is None:
        client, first = service.create_lora_training_client(base_model="chat", rank=4, seed=3), 0
    else:
        client, first = service.create_training_client_from_state_with_optimizer(saved["path"]), saved["step"] + 1
    for step in range(first, steps):
        passed = client.forward_backward([datum()], "cross_entropy")
        client.optim_step(types.AdamParams(learning_rate=1e-3, eps=1e-8)).result()
        loss = passed.result().metrics["loss:sum"]
        path = client.save_state(f"step-{step}").result().path
        journal.add(step=step, loss=loss, path=path)
        sampler = client.save_weights_and_get_sampling_client()
        sampler.sample(types.ModelInput.from_ints(TOKENS[:3]), num_samples=2,
                       sampling_params=types.SamplingParams(max_tokens=4)).result()


def check(url, journal):
    """Every path of the journal: it is listed, and what it holds gives the loss of the step after it."""
    service = tinker.ServiceClient(base_url=url, api_key=KEY)
    listed = [one.tinker_path for one in service.create_rest_client().list_user_checkpoints(limit=10000).result().checkpoints]
    losses = {}
    for entry in journal.entries:
        assert entry["path"] in listed, entry
    for entry in journal.entries[:-1][-2:]:
        client = service.create_training_client_from_state_with_optimizer(entry["path"])
        losses[entry["step"] + 1] = client.forward_backward([datum()], "cross_entropy").result().metrics["loss:sum"]
    return {"listed": listed, "losses": losses}


def main(url, name, steps):
    journal = Journal(name)
    if int(steps) == 0:
        print(json.dumps(check(url, journal)))
        return 0
    try:
        train(url, journal, int(steps))
    except Exception as error:  # noqa: BLE001: whichever it is, a user sees it
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 3
    return 0


sys.exit(main(*sys.argv[1:]))
