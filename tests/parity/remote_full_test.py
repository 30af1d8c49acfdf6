"""`trireme serve --train --train-full` with the client packages themselves, against transformers with torch's AdamW over all
parameters: every loss, log-probability and weight of a loop, under several layouts; samples are of the trained weights; a client
resumes from its checkpoint, also after a restart under another layout; what does not fit is refused."""
import json
import pathlib
import random
import shutil
import subprocess

import pytest
import torch
import transformers

import tiny_models
from program import HANG_SECONDS, TORCH_NPU, run, words_of
from remote_test import CLOSE, LAYOUTS, checkpoint_of, largest_error, logprobs_of
from served import VOCABULARY, Server, add_tokenizer

OPTIONS = ("device",)
CASES = [("0.36.0", "alone", "zero"), ("0.24.1", "tensor", None), ("0.16.1", "pipeline", None), ("0.36.0", "zero", None)]
ADAM = {"learning_rate": 1e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-5}


def make_plan():
    draw = random.Random(5)
    rows = []
    for count in (7, 12, 3):
        tokens = [draw.randrange(250) for _ in range(count + 1)]
        rows.append({"tokens": tokens[:-1], "targets": tokens[1:], "weights": [draw.choice([1, 0.5, 0.25]) for _ in range(count)],
                     "advantages": [draw.uniform(-1, 1) for _ in range(count)]})
    steps = [{"loss": "cross_entropy", "adam": ADAM} for _ in range(10)]
    steps[3] = {**steps[3], "parts": True}  # two passes before a step
    steps[5] = {**steps[5], "adam": {**ADAM, "weight_decay": 0.1, "grad_clip_norm": 0.5}}
    steps.append({"loss": "importance_sampling", "adam": ADAM})
    return {"rows": rows, "steps": steps, "prompt": rows[0]["tokens"][:5]}


def replay(model, plan, answers):
    """The same loop with torch: losses, log-probabilities and norms by step."""
    optimizer, found = torch.optim.AdamW(model.parameters()), []
    for number, step in enumerate(plan["steps"]):
        optimizer.zero_grad()
        total, probabilities, adam = 0, [], step["adam"]
        for i, row in enumerate(plan["rows"]):
            p = logprobs_of(model, row)
            probabilities.append(p.tolist())
            if step["loss"] == "cross_entropy":
                total = total - (torch.tensor(row["weights"]) * p).sum()
            else:
                total = total - (torch.exp(p - torch.tensor(answers[number - 1]["logprobs"][i])) * torch.tensor(row["advantages"])).sum()
        total.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), adam.get("grad_clip_norm") or float("inf")).item()
        optimizer.param_groups[0].update(lr=adam["learning_rate"], betas=(adam["beta1"], adam["beta2"]), eps=adam["eps"], weight_decay=adam.get("weight_decay", 0))
        optimizer.step()
        found.append({"loss": total.item(), "logprobs": probabilities, "norm": norm})
    return found


def load(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def run_client(version, part, url, plan, folder):
    interpreter = pathlib.Path(f".venv-parity-tinker-{version}/bin/python")
    if not interpreter.exists():
        pytest.skip(f"tinker {version} is not installed; scripts/setup --parity does it")
    (folder / "plan.json").write_text(json.dumps(plan))
    done = subprocess.run([interpreter, "tests/parity/remote_script.py", "tests/parity/remote_full_client.py", part, url, folder / "plan.json", folder / "result.json"],
                          capture_output=True, text=True, timeout=HANG_SECONDS, env={"HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads((folder / "result.json").read_text())


def serve_and_run(version, layout, part, plan, folder, settings=()):
    ranks, chosen = LAYOUTS[layout]
    server = Server(folder, "--train", "--train-full", "--train-directory", folder / "kept", *words_of([*chosen, *settings]), ranks=ranks,
                    variables=TORCH_NPU, model=folder / "model")
    try:
        return run_client(version, part, server.url.removesuffix("/v1"), plan, folder)
    finally:
        status = server.stop()
        assert status == 0 or ranks is not None, server.log.read_text()[-3000:]


@pytest.mark.devices("cpu")
@pytest.mark.parametrize("version, layout, resumed", CASES)
def test_a_loop_equals_torch(tmp_path, version, layout, resumed):
    check_loop(tmp_path, version, layout, resumed)


@pytest.mark.devices("npu")
def test_a_loop_on_npu_equals_torch(tmp_path):
    check_loop(tmp_path, "0.24.1", "zero", None, ["device=npu"])


def check_loop(folder, version, layout, resumed, settings=()):
    # Under a pipeline the embedding is the head, too: two stages have it.
    config = tiny_models.config_of("qwen3", vocab_size=VOCABULARY, num_hidden_layers=2, tie_word_embeddings=layout == "pipeline")
    tiny_models.write_model(config, folder / "model")
    add_tokenizer(folder / "model")
    plan = make_plan()
    result = serve_and_run(version, layout, "train", plan, folder, settings)
    assert result["is_lora"] is False
    kept = folder / "kept"
    model = load(folder / "model").train()
    compare_samples(result["base"], model, plan["prompt"])
    for number, (mine, theirs) in enumerate(zip(result["steps"], replay(model, plan, result["steps"]), strict=True)):
        assert abs(mine["loss"] - theirs["loss"]) < CLOSE * max(1, abs(theirs["loss"])), number
        assert abs(mine["norm"] - theirs["norm"]) < 1e-3 * theirs["norm"], number
        for a, b in zip(mine["logprobs"], theirs["logprobs"], strict=True):
            assert largest_error(a, b) < CLOSE, number
    compare_weights(checkpoint_of(kept, result["end"]), model)
    compare_weights(checkpoint_of(kept, result["start"]), load(folder / "model"))
    for samples in (result["sample"], result["named"]):
        compare_samples(samples, model, plan["prompt"])
    assert result["sample"]["tokens"] == result["named"]["tokens"] != result["base"]["tokens"]
    assert result["again"] == result["next"]  # to the bit: the checkpoint has all that a step depends on
    assert "one model" in result["second"]["text"]
    for name, word in (("old", "weights have changed"), ("base", "weights have changed"), ("disable", "disable_lora"), ("sampler", "save_state"), ("empty", "no gradients")):
        assert word in result["refusals"][name]["text"], (name, result["refusals"][name])
    if resumed is not None:
        compare_samples(check_resumed(folder, version, resumed, plan, result)["sample"], model, plan["prompt"])


def compare_weights(saved, model):
    wanted, found = model.state_dict(), load(saved).state_dict()
    assert sorted(found) == sorted(wanted)
    for name, weight in wanted.items():
        assert (found[name] - weight).abs().max() <= CLOSE * weight.abs().max(), name


def compare_samples(samples, model, prompt):
    """Tokens were drawn from the model as it is now."""
    with torch.no_grad():
        for tokens, logprobs, scored in zip(samples["tokens"], samples["logprobs"], samples["scored"], strict=True):
            line = prompt + tokens
            known = logprobs_of(model, {"tokens": line[:-1], "targets": line[1:]}).tolist()
            assert largest_error(logprobs, known[len(prompt) - 1:]) < 1e-3
            assert largest_error(scored[1:], known) < CLOSE


def check_resumed(folder, version, layout, plan, before):
    """Another server over the same directory; beside the checkpoint stand one of an adapter, of another base, and a torn one."""
    end = checkpoint_of(folder / "kept", before["end"])
    record = json.loads((end / "record.json").read_text())
    assert record["full"] is True and (end / "config.json").exists()
    for name, facts in (("lora", {"full": False}), ("other", {"base_model": "another"}), ("torn", {})):
        shutil.copytree(end, end.parent / name)
        (end.parent / name / "record.json").write_text(json.dumps({**record, **facts}))
    torn = max((end.parent / "torn" / "state").iterdir(), key=lambda file: file.stat().st_size)  # the tensors
    content = bytearray(torn.read_bytes())
    content[len(content) // 2] ^= 1
    torn.write_bytes(content)
    result = serve_and_run(version, layout, "resume", {**plan, "end": before["end"]}, folder)
    for name, word in (("lora", "is a LoRA adapter"), ("other", "was trained from 'another'"), ("torn", "torn")):
        assert word in result["refusals"][name]["text"], (name, result["refusals"][name])
    for name in ("again", "fresh"):  # a step with moments and one without: the first loss is the same, the second is not
        same = [abs(mine["loss"] - theirs["loss"]) < CLOSE * abs(theirs["loss"]) for mine, theirs in zip(result[name], before["next"])]
        assert same == [True, name == "again"], (name, result[name], before["next"])
    return result


@pytest.mark.devices("cpu")
@pytest.mark.parametrize("words, said", [(["--train-full"], "--train-full: is for --train"),
                                         (["--train", "--train-full", "--train-directory", "x", "--train-max-rank", "4"], "--train-max-rank: is for adapters"),
                                         (["--train", "--train-full", "--train-directory", "x", "--adapters", "a=b"], "adapters"),
                                         (["--train", "--train-full"], "--train-directory")])
def test_options_that_do_not_go_together_are_refused(words, said, model="chat"):
    done = run(None, ["serve", "--model", f"examples/{model}", *words])
    assert done.returncode == 2 and said in done.stderr, (done.returncode, done.stderr)


@pytest.mark.devices("cpu")
def test_adapters_of_a_model_that_sees_are_refused():
    test_options_that_do_not_go_together_are_refused(["--train", "--train-directory", "x"], "sees images", "pictures")
