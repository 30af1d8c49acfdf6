"""`trireme serve` with several LoRA adapters: each request's answer equals PEFT's for its adapter, whatever else is in the
batch, under every layout; adapters come and go at run time; those that do not fit are refused before the start."""
import asyncio
import json
import shutil
import subprocess
import urllib.error
import urllib.request

import openai
import peft
import pytest
import torch
import transformers

import tiny_models
from decoding import CLEAR, likeliest
from lora_adapters import ATTENTION, EXPERTS, LATENT, LINEAR, TWICE, randomise
from program import BUILD, HANG_SECONDS
from served import KEY, VOCABULARY, Server, add_tokenizer

# Family to its two adapters: other ranks, other modules, scaled in other ways.
FAMILIES = {
    "qwen3": (dict(r=4, lora_alpha=8, target_modules=LINEAR),
              dict(r=7, lora_alpha=5, target_modules=["q_proj", "v_proj", "down_proj"], use_rslora=True)),
    "qwen3_moe": (dict(r=3, lora_alpha=5, target_modules=ATTENTION, target_parameters=[*EXPERTS, "gate.weight"], **TWICE),
                  dict(r=5, lora_alpha=9, target_modules=ATTENTION)),
    "deepseek_v3": (dict(r=3, lora_alpha=5, target_modules=LATENT, target_parameters=EXPERTS, **TWICE),
                    dict(r=6, lora_alpha=4, target_modules=["kv_b_proj", "o_proj"])),
    "qwen2_moe": (dict(r=3, lora_alpha=5, target_parameters=EXPERTS, **TWICE,
                       target_modules=[*ATTENTION, *(f"shared_expert.{word}" for word in LINEAR[4:]), "shared_expert_gate"]),
                  dict(r=2, lora_alpha=2, target_modules=["shared_expert_gate", "o_proj"])),
}
LAYOUTS = {"alone": (None, []), "tensor": (2, ["parallel.tensor=2"]), "pipeline": (2, ["parallel.pipeline=2"]),
           "expert": (2, ["parallel.expert=2"]), "tensor-plain": (2, ["parallel.tensor=2", "parallel.sequence=false"]),
           "data": (2, [])}
CASES = [("qwen3", "alone"), ("qwen3", "tensor"), ("qwen3", "pipeline"), ("qwen3", "data"), ("qwen3_moe", "expert"),
         ("deepseek_v3", "tensor"), ("qwen2_moe", "tensor-plain")]
OPTIONS = ("full",)
NEW = 8
PROMPTS = [[(31 * i + k * k + 7 * k) % 250 for k in range(3 + 5 * i)] for i in range(6)]


def make_family(folder, family):
    """The model, two adapters, and by adapter (None: none) what PEFT continues each prompt with."""
    model = folder / family
    config = tiny_models.config_of(family, vocab_size=VOCABULARY, num_hidden_layers=3, mlp_only_layers=[]) \
        if family == "qwen3_moe" else tiny_models.config_of(family, vocab_size=VOCABULARY, num_hidden_layers=3)
    tiny_models.write_model(config, model)
    add_tokenizer(model)
    load = lambda: transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    wanted = {None: [continued(load(), prompt) for prompt in PROMPTS]}
    for number, settings in enumerate(FAMILIES[family]):
        name = "ab"[number]
        tuned = peft.get_peft_model(load(), peft.LoraConfig(task_type="CAUSAL_LM", **settings))
        randomise(tuned, seed=number)
        tuned.save_pretrained(folder / f"{family}-{name}")
        wanted[name] = [continued(tuned.eval(), prompt) for prompt in PROMPTS]
    return model, wanted


def continued(model, prompt):
    """Tokens, their log-probabilities, and by how much the least clear of them won."""
    tokens, margin = likeliest(model, prompt, NEW)
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([prompt + tokens])).logits[0].log_softmax(-1)
    return tokens, [logits[len(prompt) - 1 + i, token].item() for i, token in enumerate(tokens)], margin


@pytest.fixture(scope="module")
def families(folder):
    made = {}

    def of(family):
        if family not in made:
            made[family] = make_family(folder, family)
        return made[family]
    return of


def all_at_once(server, names):
    """Every prompt for every name, in one batch."""
    async def ask():
        client = openai.AsyncOpenAI(base_url=server.url, api_key=KEY, max_retries=0)
        return await asyncio.gather(*(client.completions.create(
            model=name, prompt=prompt, max_tokens=NEW, temperature=0, logprobs=0, extra_body={"ignore_eos": True})
            for prompt in PROMPTS for name in names))
    return asyncio.run(ask())


def adapters_of(folder, family):
    return [word for name in "ab" for word in ("--adapters", f"{name}={folder / family}-{name}")]


def compare(server, wanted, names, record=None):
    answers, worst = all_at_once(server, names), 0.0
    for number, answer in enumerate(answers):
        name = names[number % len(names)]
        tokens, log_probs, margin = wanted[name if name in wanted else None][number // len(names)]
        assert answer.model == name
        if margin < CLEAR:
            continue
        choice = answer.choices[0]
        assert choice.text == server.tokenizer.decode(tokens, skip_special_tokens=True), f"{name}: prompt {number // len(names)}"
        error = max(abs(a - b) for a, b in zip(choice.logprobs.token_logprobs, log_probs, strict=True))
        assert error < 2e-4, f"{name}: prompt {number // len(names)}"
        worst = max(worst, error)
    if record:
        record("log-probability", worst)


@pytest.mark.parametrize("family, layout", CASES)
def test_a_mixed_batch_equals_peft(folder, families, family, layout, record_property):
    model, wanted = families(family)
    clear = [margin > CLEAR for name in wanted for _, _, margin in wanted[name]]
    assert sum(clear) > len(clear) / 2, "most prompts must prove something"
    assert wanted[None] != wanted["a"] != wanted["b"]
    ranks, settings = LAYOUTS[layout]
    server = Server(folder, *adapters_of(folder, family), *(word for each in settings for word in ("--set", each)), ranks=ranks,
                    model=model)
    try:
        compare(server, wanted, [family, "a", "b"], record_property)
        compare(server, wanted, ["b", family])
        listed = {found.id: found for found in server.client.models.list()}
        assert set(listed) == {family, "a", "b"} and listed["a"].parent == family and listed["a"].root == f"{family}-a"
        assert server.client.models.retrieve("b").id == "b"
        with pytest.raises(openai.NotFoundError) as error:
            server.client.completions.create(model="c", prompt="x")
        assert error.value.code == "model_not_found" and "'a'" in error.value.message
    finally:
        server.process.terminate()
        server.process.wait(timeout=60)


def post(server, path, body, key=KEY):
    request = urllib.request.Request(f"{server.url}/{path}", json.dumps(body).encode(),
                                     {"Content-Type": "application/json", "Authorization": f"Bearer {key}"})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_adapters_come_and_go(folder, families):
    model, wanted = families("qwen3")
    allowed = folder / "allowed"
    allowed.mkdir()
    shutil.copytree(f"{folder}/qwen3-a", allowed / "first")
    shutil.copytree(f"{folder}/qwen3-b", allowed / "second")
    (allowed / "out").symlink_to(folder / "qwen3-a")
    (folder / "control").write_text("control-key\n")
    server = Server(folder, "--adapter-directory", allowed, "--adapter-key-file", folder / "control", model=model)
    load = lambda name, path, **more: post(server, "load_lora_adapter", {"lora_name": name, "lora_path": path, **more}, "control-key")
    assert post(server, "load_lora_adapter", {"lora_name": "a", "lora_path": "first"})[0] == 401, "another key"
    assert load("a", "first")[0] == 200
    compare(server, wanted, ["qwen3", "a"])
    assert load("a", "second")[0] == 400, "the name is taken"
    assert load("qwen3", "second")[0] == 400, "the model's name"
    for path in ("../qwen3-b", "out", str(folder / "qwen3-b"), "missing", "", "/etc"):
        status, text = load("x", path)
        assert status == 400 and "lora_path" in text and str(folder) not in text, path
    (allowed / "broken").mkdir()
    assert load("x", "broken")[0] == 400, "no adapter"
    running = server.client.completions.create(model="a", prompt=PROMPTS[5], max_tokens=60, temperature=0, stream=True,
                                               extra_body={"ignore_eos": True})
    pieces = [next(iter(running)).choices[0].text]
    assert post(server, "unload_lora_adapter", {"lora_name": "a"}, "control-key")[0] == 200
    with pytest.raises(openai.NotFoundError):
        server.client.completions.create(model="a", prompt="x")
    pieces += [chunk.choices[0].text for chunk in running]
    assert load("a", "second")[0] == 200
    compare(server, {None: wanted[None], "a": wanted["b"]}, ["qwen3", "a"])  # nothing of the first is in the cache
    assert load("a", "first", load_inplace=True)[0] == 200
    compare(server, wanted, ["a", "qwen3"])
    again = server.client.completions.create(model="a", prompt=PROMPTS[5], max_tokens=60, temperature=0, extra_body={"ignore_eos": True})
    assert "".join(pieces) == again.choices[0].text, "a running request keeps a dropped adapter to its end"
    assert post(server, "unload_lora_adapter", {"lora_name": "b"}, "control-key")[0] == 404
    assert server.stop() == 0


def test_loading_is_off_by_default(folder, families):
    server = Server(folder, model=families("qwen3")[0])
    status, text = post(server, "load_lora_adapter", {"lora_name": "a", "lora_path": "/x"})
    assert status == 404 and "--adapter-directory" in text
    assert server.stop() == 0


def changed_adapter(folder, name, change):
    shutil.copytree(folder / "qwen3-a", folder / name)
    path = folder / name / "adapter_config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))
    return folder / name


def test_adapters_that_do_not_fit(folder, families):
    model, _ = families("qwen3")
    other, _ = families("deepseek_v3")
    saved = peft.get_peft_model(transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32), peft.LoraConfig(
        task_type="CAUSAL_LM", r=2, target_modules=["q_proj"], modules_to_save=["lm_head"]))
    saved.save_pretrained(folder / "saved")
    wider = tiny_models.config_of("qwen3", vocab_size=VOCABULARY, num_hidden_layers=3, intermediate_size=128)
    tiny_models.write_model(wider, folder / "wider")
    add_tokenizer(folder / "wider")
    based = changed_adapter(folder, "based", lambda config: config.update(base_model_name_or_path=str(other)))
    free = changed_adapter(folder, "free", lambda config: config.pop("base_model_name_or_path"))
    rank = changed_adapter(folder, "rank", lambda config: config.update(r=9))
    for base, adapter, words in [
            (model, based, "its base model is"), (folder / "wider", free, "is the adapter for another model?"),
            (model, rank, "its config says 9"), (other, free, "is the adapter for another model?"), (model, folder / "saved", "modules_to_save"),
            (model, folder / "missing", "missing"), (model, "", "wanted NAME=DIR")]:
        result = subprocess.run([BUILD / "trireme", "serve", "--model", base, "--port", "0", "--adapters", f"x={adapter}"],
                                capture_output=True, text=True, timeout=HANG_SECONDS)
        assert result.returncode == 2 and words in result.stderr, result.stderr
    twice = subprocess.run([BUILD / "trireme", "serve", "--model", model, "--adapters", f"x={free}", "--adapters", f"x={free}"],
                           capture_output=True, text=True)
    assert twice.returncode == 2 and "twice" in twice.stderr
