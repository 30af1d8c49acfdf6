"""A loop that trains a whole model remotely (`trireme serve --train --train-full`), run by the client package's own interpreter:
remote_full_client.py train|resume URL PLAN.json RESULT.json. What the server answered goes to RESULT.json; remote_full_test.py judges it."""
import json
import sys

import tinker
from tinker import types

from remote_client import answer_of, datum_of, failure_of

KEY = "tml-full"


def data_of(step, rows, answers):
    if step["loss"] == "cross_entropy":
        return [datum_of(row, weights=row["weights"]) for row in rows]
    return [datum_of(row, logprobs=old, advantages=row["advantages"]) for row, old in zip(rows, answers[-1]["logprobs"])]


def take_step(client, step, rows, answers=()):
    """One step; of some the gradients come in two passes."""
    data = data_of(step, rows, answers)
    parts = [data[:1], data[1:]] if step.get("parts") else [data]
    passed = [client.forward_backward(part, step["loss"]) for part in parts]
    stepped = client.optim_step(types.AdamParams(**step["adam"]))
    found = [answer_of(one.result()) for one in passed]
    return {"loss": sum(one["metrics"]["loss:sum"] for one in found), "logprobs": [row for one in found for row in one["logprobs"]],
            "norm": stepped.result().metrics["grad_norm"]}


def drawn_of(sampler, prompt):
    drawn = sampler.sample(types.ModelInput.from_ints(prompt), num_samples=2,
                           sampling_params=types.SamplingParams(max_tokens=6, temperature=1.0, seed=11, stop=[])).result()
    tokens = [list(one.tokens) for one in drawn.sequences]
    scored = [list(sampler.compute_logprobs(types.ModelInput.from_ints(prompt + one)).result()) for one in tokens]
    return {"tokens": tokens, "logprobs": [list(one.logprobs) for one in drawn.sequences], "scored": scored}


def train(service, plan):
    base = service.create_sampling_client(base_model="model")
    client = service.create_lora_training_client(base_model="model", rank=8)
    prompt, rows = plan["prompt"], plan["rows"]
    result = {"base": drawn_of(base, prompt), "is_lora": client.get_info().is_lora, "steps": []}
    result["second"] = failure_of(lambda: service.create_lora_training_client(base_model="model", rank=8))
    result["start"] = client.save_state("start").result().path
    for step in plan["steps"]:
        result["steps"].append(take_step(client, step, rows, result["steps"]))
    result["end"] = client.save_state("end").result().path
    sampler = client.save_weights_and_get_sampling_client()
    result["sample"] = drawn_of(sampler, prompt)
    named = service.create_sampling_client(model_path=client.save_weights_for_sampler("kept").result().path)
    result["named"] = drawn_of(named, prompt)
    result["next"] = [take_step(client, plan["steps"][0], rows), take_step(client, plan["steps"][0], rows)]
    result["refusals"] = {
        "old": failure_of(lambda: drawn_of(sampler, prompt)),
        "base": failure_of(lambda: drawn_of(base, prompt)),
        "disable": failure_of(lambda: client.forward(data_of(plan["steps"][0], rows, ()), "cross_entropy", loss_fn_config={"disable_lora": 1}).result()),
        "sampler": failure_of(lambda: client.load_state(result["end"].replace("/weights/end", "/sampler_weights/kept")).result()),
        "empty": failure_of(lambda: client.optim_step(types.AdamParams()).result()),
    }
    client.load_state_with_optimizer(result["end"]).result()
    result["again"] = [take_step(client, plan["steps"][0], rows), take_step(client, plan["steps"][0], rows)]
    return result


def resume(service, plan):
    """After a restart, under another layout; what is not a checkpoint of this model's training in full is refused."""
    client = service.create_training_client_from_state_with_optimizer(plan["end"])
    result = {"refusals": {name: failure_of(lambda: client.load_state(plan["end"][:-len("end")] + name).result()) for name in ("lora", "other", "torn")}}
    result["again"] = [take_step(client, plan["steps"][0], plan["rows"]), take_step(client, plan["steps"][0], plan["rows"])]
    client.load_state(plan["end"]).result()
    result["sample"] = drawn_of(service.create_sampling_client(model_path=plan["end"]), plan["prompt"])
    result["fresh"] = [take_step(client, plan["steps"][0], plan["rows"]), take_step(client, plan["steps"][0], plan["rows"])]
    return result


def main(part, url, plan_file, result_file):
    plan = json.load(open(plan_file))
    service = tinker.ServiceClient(base_url=url, api_key=KEY)
    json.dump({"train": train, "resume": resume}[part](service, plan), open(result_file, "w"))


main(*sys.argv[1:])
