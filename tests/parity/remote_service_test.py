"""The service side of `trireme serve --train` with the client packages themselves: what is wrong is refused after a few requests,
every method of the rest client works or is refused in words, downloads, quotas that clients wait for, and the loops of
examples/remote. Numbers of training are remote_test.py's."""
import json
import os
import pathlib
import re
import subprocess
import tarfile
import time
import urllib.error
import urllib.request

import pytest

from program import HANG_SECONDS
from relay import Relay
from served import Server

CALM = 30  # requests of a client until it has its answer; a retry storm has hundreds


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    yield from serve(tmp_path_factory.mktemp("remote"))


@pytest.fixture(scope="module")
def tight_server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tight")
    (folder / "keys").write_text("tml-service-0.16.1\ntml-service-0.36.0\n")
    yield from serve(folder, "--api-key-file", folder / "keys", "--train-quota-tokens", 20, "--train-quota-models", 1, "--train-quota-requests", 6)


def serve(folder, *words):
    one = Server(folder, "--train", "--train-directory", folder / "kept", "--train-max-rank", 16, "--train-max-models", 32, *words)
    one.relay = Relay(int(one.url.removesuffix("/v1").rsplit(":", 1)[1]))
    yield one
    assert one.stop() == 0, one.log.read_text()[-3000:]


def python_of(version):
    interpreter = pathlib.Path(f".venv-parity-tinker-{version}/bin/python")
    if not interpreter.exists():
        pytest.skip(f"tinker {version} is not installed; scripts/setup --parity does it")
    return interpreter


def run_script(version, *words):
    done = subprocess.run([python_of(version), "tests/parity/remote_script.py", *words], capture_output=True, text=True, timeout=HANG_SECONDS,
                          env={"HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr[-4000:]
    return done


def ask(version, server, part, folder):
    file = folder / f"{part}-{version}.json"
    done = run_script(version, "tests/parity/remote_service_client.py", part, server.relay.url, file)
    return json.loads(file.read_text()), done.stderr


def post(server, path, **body):
    request = urllib.request.Request(server.url.removesuffix("/v1") + f"/api/v1/{path}", json.dumps(body).encode(),
                                     {"X-API-Key": "tml-turns", "Content-Type": "application/json"})
    return json.loads(urllib.request.urlopen(request, timeout=HANG_SECONDS).read())


def finished(server, future):
    while True:
        try:
            return post(server, "retrieve_future", request_id=future["request_id"])
        except urllib.error.HTTPError as error:
            if error.code != 408:
                raise


@pytest.fixture
def pipeline_server(tmp_path):
    one = Server(tmp_path, "--train", "--train-directory", tmp_path / "kept", "--set", "parallel.pipeline=2", ranks=2)
    yield one
    one.stop()  # mpirun's status after a signal is its own


def test_samples_have_turns_in_a_pipeline(pipeline_server):
    """However much training waits."""
    server = pipeline_server
    session = post(server, "create_session")["session_id"]
    models = [finished(server, post(server, "create_model", session_id=session, model_seq_id=number, base_model="chat",
                                    lora_config={"rank": 4}))["model_id"] for number in range(2)]
    row = {"model_input": {"chunks": [{"type": "encoded_text", "tokens": [5, 6, 7] * 40}]},
           "loss_fn_inputs": {"target_tokens": {"data": [6, 7, 8] * 40, "dtype": "int64", "shape": [120]},
                              "weights": {"data": [1.0] * 120, "dtype": "float32", "shape": [120]}}}
    sampler = post(server, "create_sampling_session", session_id=session, sampling_session_seq_id=0, base_model="chat")["sampling_session_id"]
    training = [post(server, "forward_backward", model_id=model, seq_id=seq, forward_backward_input={"data": [row] * 8, "loss_fn": "cross_entropy"})
                for seq in range(1, 31) for model in models]
    asked = time.monotonic()
    sample = finished(server, post(server, "asample", sampling_session_id=sampler, seq_id=0, num_samples=1,
                                   prompt={"chunks": [{"type": "encoded_text", "tokens": [5, 6, 7]}]}, sampling_params={"max_tokens": 2}))
    sampled = time.monotonic() - asked
    assert all("metrics" in finished(server, one) for one in training)
    assert sample["sequences"] and sampled < 0.7 * (time.monotonic() - asked), sampled


WORDS = {"token": "vocabulary", "shape": "weights", "nan": "weights", "target": "target_tokens", "loss": "stable_reinforce", "dots": "path",
         "name": "path", "stranger": "no such checkpoint", "rank": "rank", "prompt": "vocabulary", "base": "not served here"}


@pytest.mark.parametrize("version", ["0.16.1", "0.36.0"])
def test_what_is_wrong_is_refused_after_few_requests(server, tmp_path, version):
    first = len(server.relay.targets)
    result, _ = ask(version, server, "refused", tmp_path)
    counts, name = {}, None
    for target in server.relay.targets[first:]:
        if target.startswith("/health"):
            name = target.split("mark=")[1]
        elif name and "telemetry" not in target and "heartbeat" not in target:
            counts[name] = counts.get(name, 0) + 1
    assert result["after"] > 0
    for name, word in WORDS.items():
        assert "type" in result[name], (name, result[name])
        if version == "0.36.0" or name != "nan":  # JSON has no NaN: that client fails by itself
            assert word in result[name]["text"], (name, result[name])
        assert counts.get(name, 0) <= CALM, (name, counts)


NOT_OFFERED = ["publish_checkpoint_from_tinker_path", "unpublish_checkpoint_from_tinker_path", "assign_session_project",
               "export_session_trace", "copy_weights", "search_sessions", "get_audit_log", "get_billing_usage",
               "get_current_checkpoint_storage_usage"]
OF_THE_CLIENT = ["get_telemetry", "holder", "capture_exceptions"]


def test_every_method_of_the_rest_client_works_or_is_refused_in_words(server, tmp_path):
    result, _ = ask("0.36.0", server, "lists", tmp_path)
    assert set(result["sizes"]) == {"adapter_config.json", "adapter_model.safetensors"} and min(result["sizes"].values()) > 0
    known = [name for name in result["methods"] if name not in OF_THE_CLIENT and name != "get_external_weights_urls"]
    assert [name for name in known if name not in result] == []
    for name in known + ["deleted"]:
        if name in NOT_OFFERED:
            assert "not offered by this server" in result[name].get("text", ""), (name, result[name])
        elif name == "whoami":
            assert "JWT" in result[name]["text"]
        else:
            assert result[name].get("value") == "True", (name, result[name])


def test_likely_tokens_and_the_end_of_the_prompt(server, tmp_path):
    result, _ = ask("0.36.0", server, "likely", tmp_path)
    for token, logprob, likely in zip(result["tokens"], result["logprobs"], result["likely"], strict=True):
        assert len(likely) == 4 and likely[0][0] == token  # it was drawn greedily
        assert likely[0][1] == pytest.approx(logprob, abs=1e-5)
        assert [one[1] for one in likely] == sorted((one[1] for one in likely), reverse=True)
    assert result["last"] == [None] * 4 + [pytest.approx(one, abs=1e-5) for one in result["whole"][-2:]]
    assert result["whole"][0] is None and None not in result["whole"][1:]
    assert result["many"] == [1] * 32
    assert any(target.endswith("/retrieve_futures") for target in server.relay.targets)


@pytest.mark.parametrize("version", ["0.16.1", "0.24.1"])
def test_an_archive_is_what_peft_reads(server, tmp_path, version):
    result, _ = ask(version, server, "archive", tmp_path)
    with tarfile.open(result["file"]) as tar:
        names = sorted(tar.getnames())
        config = json.load(tar.extractfile("adapter_config.json"))
        weights = tar.extractfile("adapter_model.safetensors").read()
    os.remove(result["file"])
    assert names == ["adapter_config.json", "adapter_model.safetensors", "checkpoint_complete", "optimizer.safetensors"]
    run, kind, name = result["path"].removeprefix("tinker://").split("/")
    kept = next((server.log.parent / "kept").glob(f"*/{run}/{kind}/{name}"))
    assert config["r"] == 4 and weights == (kept / "adapter_model.safetensors").read_bytes()


def test_keys_are_wanted_where_there_are_some(tight_server, tmp_path):
    with pytest.raises(AssertionError, match="401"):
        ask("0.24.1", tight_server, "archive", tmp_path)


@pytest.mark.parametrize("version", ["0.16.1", "0.36.0"])
def test_clients_wait_for_their_quota(tight_server, tmp_path, version):
    before = len(tight_server.relay.targets)
    result, _ = ask(version, tight_server, "quota", tmp_path)
    assert result["trained"] + result["sampled"] > (280 + 48 - 200) / 20 - 2.5  # 200 tokens at once, and the last request may owe
    assert len(result["losses"]) == 10 and max(result["losses"]) == pytest.approx(min(result["losses"]), rel=1e-4)
    assert result["counts"] == [1] * 4
    assert "may train 1 models" in result["second"]["text"]
    assert len(tight_server.relay.targets) - before < 150


def numbers_of(text, name):
    return [float(number) for number in re.findall(rf"{name} (-?[0-9.]+)", text)]


def test_the_sft_example_learns(server):
    losses = numbers_of(run_script("0.36.0", "examples/remote/sft.py", server.relay.url).stdout, "loss")
    assert len(losses) == 30 and sum(losses[-5:]) < 0.6 * sum(losses[:5]), losses


def test_the_grpo_example_is_rewarded(server):
    rewards = numbers_of(run_script("0.24.1", "examples/remote/grpo.py", server.relay.url).stdout, "reward")
    assert len(rewards) == 12 and sum(rewards[-3:]) / 3 > 3 * rewards[0], rewards
