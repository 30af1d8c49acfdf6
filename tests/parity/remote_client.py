"""A loop of remote training as a user writes it, run by the client package's own interpreter (tinker 0.16.1, 0.24.1 or
0.36.0, or 0.16.1 as Twinkle's client patches it): remote_client.py URL PLAN.json RESULT.json. What the server answered goes to RESULT.json; remote_test.py judges it."""
import importlib.util
import json
import sys
import time

TWINKLE = importlib.util.find_spec("twinkle_client") is not None
if TWINKLE:
    import twinkle_client
    twinkle_client.init_tinker_client()

import tinker
from tinker import types

KEY = "any-key" if TWINKLE else "tml-parity"  # Twinkle's may have any form


def tensor(values, dtype):
    return types.TensorData(data=values, dtype=dtype, shape=[len(values)])


def datum_of(row, **tensors):
    inputs = {name: tensor(values, "float32") for name, values in tensors.items()}
    return types.Datum(model_input=types.ModelInput.from_ints(row["tokens"]),
                       loss_fn_inputs={"target_tokens": tensor(row["targets"], "int64"), **inputs})


def answer_of(output):
    return {"metrics": output.metrics, "logprobs": [list(map(float, one["logprobs"].data)) for one in output.loss_fn_outputs]}


def failure_of(call):
    """The exception that a call raises, and how long that took."""
    start = time.time()
    try:
        call()
    except Exception as error:  # noqa: BLE001: whichever it is
        return {"type": type(error).__name__, "text": str(error), "seconds": time.time() - start}
    return {"type": "", "text": "", "seconds": time.time() - start}


def train(client, plan):
    answers = []
    for step in plan["steps"]:
        rows, adam = plan["rows"], types.AdamParams(**step["adam"])
        if step["loss"] == "cross_entropy":
            data = [datum_of(row, weights=row["weights"]) for row in rows]
        else:  # the sampler's log-probabilities are those of the last answer, a little off
            old = [[p + d for p, d in zip(ps, row["noise"])] for ps, row in zip(answers[-1]["logprobs"], rows)]
            data = [datum_of(row, logprobs=q, advantages=row["advantages"]) for q, row in zip(old, rows)]
        passed = client.forward_backward(data, step["loss"], loss_fn_config=step.get("config"))
        stepped = client.optim_step(adam)  # before the pass is done
        answers.append(answer_of(passed.result()))
        answers[-1]["step_metrics"] = stepped.result().metrics
        if step["loss"] != "cross_entropy":
            answers[-1]["old"] = old
    return answers


def train_many(service, name, models):
    """Several models at once: every request is sent before any answer is waited for, so that the server has passes to join."""
    clients = [service.create_lora_training_client(base_model=name, rank=model["rank"], seed=model["seed"]) for model in models]
    starts = [client.save_state("start").result().path for client in clients]
    answers = [[] for _ in models]
    for step in range(max(len(model["steps"]) for model in models)):
        for client, model, sent in zip(clients, models, answers):
            if step >= len(model["steps"]):
                continue
            of_step = model["steps"][step]
            wanted = ("weights",) if of_step["loss"] == "cross_entropy" else ("logprobs", "advantages")
            data = [datum_of(row, **{name: row[name] for name in wanted}) for row in model["rows"]]
            sent.append((client.forward_backward(data, of_step["loss"], loss_fn_config=of_step.get("config")),
                         client.optim_step(types.AdamParams(**of_step["adam"]))))
    found = [[{**answer_of(passed.result()), "step_metrics": stepped.result().metrics} for passed, stepped in sent] for sent in answers]
    ends = [client.save_state("end").result().path for client in clients]
    return [{"start": start, "steps": steps, "end": end} for start, steps, end in zip(starts, found, ends)]


def refusals(client, plan):
    row = plan["rows"][0]
    count = len(row["tokens"])
    wrong = {
        "token": lambda: client.forward_backward([datum_of({**row, "tokens": [10**6] * count}, weights=row["weights"])], "cross_entropy").result(),
        "length": lambda: client.forward_backward([datum_of(row, weights=row["weights"][:-1])], "cross_entropy").result(),
        "input": lambda: client.forward_backward([datum_of(row, weights=row["weights"], colour=row["weights"])], "cross_entropy").result(),
        "path": lambda: client.load_state("tinker://x/weights/..").result(),
        "foreign": lambda: client.load_state("tinker://x/weights/y").result(),
    }
    return {name: failure_of(call) for name, call in wrong.items()}


def sample(client, plan):
    sampler = client.save_weights_and_get_sampling_client(name="sampled")
    prompt = plan["rows"][0]["tokens"][:5]
    drawn = sampler.sample(types.ModelInput.from_ints(prompt), num_samples=2,
                           sampling_params=types.SamplingParams(max_tokens=6, temperature=1.0, seed=11, stop=[])).result()
    sequences = [{"tokens": list(one.tokens), "logprobs": list(one.logprobs), "reason": str(one.stop_reason)} for one in drawn.sequences]
    scored = [sampler.compute_logprobs(types.ModelInput.from_ints(prompt + one["tokens"])).result() for one in sequences]
    return {"prompt": prompt, "sequences": sequences, "scored": [list(one) for one in scored]}


def main(url, plan_file, result_file):
    plan = json.load(open(plan_file))
    service = tinker.ServiceClient(base_url=url, api_key=KEY)
    names = [one.model_name for one in service.get_server_capabilities().supported_models]
    client = service.create_lora_training_client(base_model=names[0], rank=plan["rank"], seed=3)
    result = {"models": names, "info": client.get_info().model_data.tokenizer_id}
    result["start"] = client.save_state("start").result().path
    result["steps"] = train(client, plan)
    result["end"] = client.save_state("end").result().path
    result["refusals"] = refusals(client, plan)
    result["sample"] = sample(client, plan)
    # A new client resumes where the first one was: with the optimizer the next step is the same.
    again = service.create_training_client_from_state_with_optimizer(result["end"])
    data = [datum_of(row, weights=row["weights"]) for row in plan["rows"]]
    resumed = []
    for one in (client, again):
        passed = one.forward_backward(data, "cross_entropy")
        one.optim_step(types.AdamParams(**plan["steps"][0]["adam"])).result()
        passed.result()
        resumed.append(answer_of(one.forward_backward(data, "cross_entropy").result()))
    result["resumed"] = resumed
    result["many"] = train_many(service, names[0], plan["many"])
    json.dump(result, open(result_file, "w"))


if __name__ == "__main__":
    main(*sys.argv[1:])
