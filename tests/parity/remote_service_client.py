"""What clients ask of the service beside training: lists, downloads, quotas, what is refused. Run by the client package's own
interpreter: remote_service_client.py PART URL RESULT.json; remote_service_test.py judges what it wrote."""
import json
import sys
import time
import urllib.request

import tinker
from tinker import types

KEY = "tml-service-" + tinker.__version__
TOKENS = [5, 17, 99, 3, 42, 8, 120, 77]


def tensor(values, dtype):
    return types.TensorData(data=values, dtype=dtype, shape=[len(values)])


def datum(tokens=TOKENS, weights=None, targets=None):
    count = len(tokens) - 1
    return types.Datum(model_input=types.ModelInput.from_ints(tokens[:-1]),
                       loss_fn_inputs={"target_tokens": tensor(targets or tokens[1:], "int64"),
                                       "weights": tensor(weights or [1.0] * count, "float32")})


def failure_of(call):
    start = time.time()
    try:
        return {"value": repr(call()), "seconds": time.time() - start}
    except Exception as error:  # noqa: BLE001: whichever it is
        return {"type": type(error).__name__, "text": str(error), "seconds": time.time() - start}


def open_service(url, key=KEY):
    return tinker.ServiceClient(base_url=url, api_key=key)


def new_model(service, rank=4):
    return service.create_lora_training_client(base_model="chat", rank=rank, seed=3)


def refused(url):
    """One wrong request each, with a fresh count of requests by the relay: the name of each is asked for as a path."""
    service = open_service(url)
    client = new_model(service)
    client.forward_backward([datum()], "cross_entropy").result()
    saved = client.save_state("mine").result().path
    other = new_model(open_service(url, "tml-stranger"))
    alone = new_model(service)  # older clients fail before they send these: a number of theirs is missing from then on
    count = len(TOKENS) - 1
    calls = {
        "token": lambda: client.forward_backward([datum([10**6] * len(TOKENS))], "cross_entropy").result(),
        "shape": lambda: client.forward_backward([datum(weights=[1.0] * (count - 1))], "cross_entropy").result(),
        "nan": lambda: alone.forward_backward([datum(weights=[float("nan")] * count)], "cross_entropy").result(),
        "target": lambda: client.forward_backward([datum(targets=[-5] * count)], "cross_entropy").result(),
        "loss": lambda: alone.forward_backward([datum()], "stable_reinforce").result(),
        "dots": lambda: client.load_state("tinker://x/weights/..").result(),
        "name": lambda: client.save_state("../../escape").result(),
        "stranger": lambda: other.load_state(saved).result(),
        "rank": lambda: new_model(service, rank=1000),
        "prompt": lambda: service.create_sampling_client(base_model="chat").sample(
            types.ModelInput.from_ints([10**6]), 1, types.SamplingParams(max_tokens=2)).result(),
        "base": lambda: service.create_lora_training_client(base_model="other", rank=4),
    }
    result = {}
    for name, call in calls.items():
        urllib.request.urlopen(f"{url}/health?mark={name}").read()
        result[name] = failure_of(call)
    urllib.request.urlopen(f"{url}/health?mark=end").read()
    result["after"] = client.forward_backward([datum()], "cross_entropy").result().metrics["loss:sum"]
    return result


def lists(url):
    """Every method of the rest client."""
    service = open_service(url)
    client = new_model(service)
    paths = [client.save_state(f"s{i}").result().path for i in range(3)]
    sampler_path = client.save_weights_for_sampler("drawn").result().path
    rest, run = service.create_rest_client(), client.model_id
    external = client.save_weights_external("outside").result().path
    urls = rest.get_external_weights_urls(external).result()
    sizes = {name: len(urllib.request.urlopen(url).read()) for name, url in urls.urls.items()}
    session = run.split(":")[0]
    calls = {
        "get_training_run": lambda: rest.get_training_run(run).result().training_run_id == run,
        "get_training_run_by_tinker_path": lambda: rest.get_training_run_by_tinker_path(paths[0]).result().lora_rank == 4,
        "get_weights_info_by_tinker_path": lambda: rest.get_weights_info_by_tinker_path(paths[0]).result().lora_rank == 4,
        "list_training_runs": lambda: run in [one.training_run_id for one in rest.list_training_runs(limit=100).result().training_runs],
        "list_checkpoints": lambda: len(rest.list_checkpoints(run).result().checkpoints) == 5,
        "list_user_checkpoints": lambda: len(rest.list_user_checkpoints(limit=2, offset=1).result().checkpoints) == 2,
        "get_session": lambda: run in rest.get_session(session).result().training_run_ids,
        "list_sessions": lambda: session in rest.list_sessions(limit=50).result().sessions,
        "set_checkpoint_ttl_from_tinker_path": lambda: rest.set_checkpoint_ttl_from_tinker_path(paths[1], 7200).result() is None,
        "delete_checkpoint_from_tinker_path": lambda: rest.delete_checkpoint_from_tinker_path(paths[2]).result() is None,
        "delete_checkpoint": lambda: rest.delete_checkpoint(run, "sampler_weights/drawn").result() is None,
        "deleted": lambda: len(rest.list_checkpoints(run).result().checkpoints) == 3,
        "get_sampler": lambda: rest.get_sampler(service.create_sampling_client(base_model="chat")._sampling_session_id).result().base_model == "chat",
        "publish_checkpoint_from_tinker_path": lambda: rest.publish_checkpoint_from_tinker_path(paths[0]).result(),
        "unpublish_checkpoint_from_tinker_path": lambda: rest.unpublish_checkpoint_from_tinker_path(paths[0]).result(),
        "assign_session_project": lambda: rest.assign_session_project(session, "p").result(),
        "export_session_trace": lambda: rest.export_session_trace(session).result(),
        "copy_weights": lambda: rest.copy_weights(paths[0], destination_project_id="p").result(),
        "search_sessions": lambda: rest.search_sessions(types.SessionSearchRequest()).result(),
        "get_audit_log": lambda: rest.get_audit_log().result(),
        "get_billing_usage": lambda: rest.get_billing_usage("2026-01-01", "2026-02-01").result(),
        "get_current_checkpoint_storage_usage": lambda: rest.get_current_checkpoint_storage_usage().result(),
        "whoami": lambda: rest.whoami().result(),
    }
    methods = sorted(name for name in dir(rest) if not name.startswith("_") and not name.endswith("_async"))
    return {"methods": methods, "sizes": sizes, "sampler_path": sampler_path, **{name: failure_of(call) for name, call in calls.items()}}


def likely(url):
    service = open_service(url)
    sampler = service.create_sampling_client(base_model="chat")
    prompt = types.ModelInput.from_ints(TOKENS[:6])
    drawn = sampler.sample(prompt, 1, types.SamplingParams(max_tokens=3, temperature=0.0, stop=[]), include_prompt_logprobs=True,
                           topk_sample_logprobs=4, prompt_logprobs_last_n=2).result()
    whole = sampler.compute_logprobs(prompt).result()
    one = drawn.sequences[0]
    many = [sampler.sample(prompt, 1, types.SamplingParams(max_tokens=2)) for _ in range(32)]
    return {"tokens": list(one.tokens), "logprobs": [float(p) for p in one.logprobs], "likely": one.topk_logprobs,
            "last": [None if p is None or p != p else float(p) for p in drawn.prompt_logprobs],
            "whole": [None if p is None or p != p else float(p) for p in whole], "many": [len(each.result().sequences) for each in many]}


def archive(url):
    """The download of older clients: a signed link, then plain HTTP."""
    service = open_service(url)
    path = new_model(service).save_state("packed").result().path
    link = service.create_rest_client().get_checkpoint_archive_url_from_tinker_path(path).result().url
    name, _ = urllib.request.urlretrieve(link)
    return {"link": link, "file": name, "path": path}


def quota(url):
    """Ten passes where the key's tokens are soon used up: all of them are done, later."""
    service = open_service(url)
    client = new_model(service)
    start = time.time()
    waiting = [client.forward_backward([datum()] * 4, "cross_entropy") for _ in range(10)]
    losses = [one.result().metrics["loss:sum"] for one in waiting]
    trained = time.time() - start
    sampler = service.create_sampling_client(base_model="chat")
    drawn = [sampler.sample(types.ModelInput.from_ints(TOKENS), 1, types.SamplingParams(max_tokens=4)) for _ in range(4)]
    counts = [len(one.result().sequences) for one in drawn]
    second = failure_of(lambda: new_model(service))
    return {"losses": losses, "trained": trained, "sampled": time.time() - start - trained, "counts": counts, "second": second}


def main(part, url, file):
    json.dump({"refused": refused, "lists": lists, "likely": likely, "archive": archive, "quota": quota}[part](url), open(file, "w"))


main(*sys.argv[1:])
