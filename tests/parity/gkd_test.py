"""Distillation against TRL's GKDTrainer and its divergence: four steps on given answers; loss and every gradient for each
divergence and temperature, and under layouts, with a teacher that is larger than the student and may have a layout of its
own; then answers that the
student and the teacher write, each with the log-probabilities of its writer. In fp32."""
import json

import pytest
import torch
import transformers
from safetensors.torch import load_file

import preference_peers as peers  # sets the environment up before trl is imported
import tiny_models
from gradients import assert_within, largest_error, relative
from program import Launches, failure_text, run_grads, run_many, words_of

import datasets
from trl.experimental.gkd import GKDConfig, GKDTrainer

LIMITS = {"loss": 2e-5, "gradient": 1e-4}
BETAS = (0.0, 0.1, 0.5, 1.0)
STEPS, BATCH = 4, 4
PLAIN = {"ranks": 1, "models": ("student", "teacher"), "beta": 0.5, "temperature": 1.0, "settings": []}
CASES = [{**PLAIN, "beta": beta, "temperature": temperature} for beta in BETAS for temperature in (1.0, 0.7)]
CASES += [{**PLAIN, **one} for one in (
    {"settings": ["data.packing=true"]},
    {"ranks": 2, "settings": ["parallel.tensor=2"]},
    {"ranks": 2, "beta": 0.0, "settings": ["parallel.tensor=2", "parallel.sequence=false"]},
    {"ranks": 2, "beta": 1.0, "temperature": 0.7, "settings": ["parallel.pipeline=2"]},
    {"ranks": 2, "settings": ["parallel.context=2"]},
    {"ranks": 2, "settings": ["parallel.zero=3", "run.micro_batch=2"]},
    {"ranks": 2, "beta": 0.1, "settings": ["memory.shard_reference=true"]},
    {"ranks": 2, "settings": ["memory.offload_reference=true", "parallel.tensor=2"]},
    {"ranks": 4, "beta": 0.1, "settings": ["parallel.tensor=2", "parallel.pipeline=2", "parallel.schedule=zero_bubble"]},
    {"ranks": 4, "settings": ["parallel.tensor=2", "data.packing=true"]},
    {"ranks": 2, "models": ("capped", "capped_teacher"), "temperature": 0.7, "settings": ["parallel.tensor=2"]},
    # A teacher under a layout of its own.
    {"ranks": 2, "settings": ["distillation.layout.tensor=2"]},
    {"ranks": 2, "beta": 0.1, "settings": ["parallel.tensor=2", "distillation.layout.pipeline=2", "run.micro_batch=2"]},
    {"ranks": 2, "settings": ["parallel.context=2", "distillation.layout.tensor=2", "data.packing=true"]},
    {"ranks": 2, "models": ("capped", "capped_teacher"), "temperature": 0.7,
     "settings": ["parallel.pipeline=2", "distillation.layout.tensor=2", "memory.offload_reference=true"]},
    {"ranks": 2, "models": ("student", "experts"), "settings": ["distillation.layout.expert=2"]},
    {"ranks": 4, "settings": ["parallel.tensor=2", "parallel.zero=3", "distillation.layout.pipeline=2", "memory.shard_reference=true"]},
    {"ranks": 4, "beta": 0.1, "settings": ["parallel.pipeline=2", "parallel.schedule=dualpipev", "parallel.virtual_stages=2",
                                           "distillation.layout.tensor=2", "distillation.layout.pipeline=2"]},
)]


def text(case):
    return " ".join([case["models"][0], f"beta {case['beta']} at {case['temperature']}", *case["settings"]])


def load(path):
    return transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)


@pytest.fixture(scope="module")
def inputs(folder):
    """A student, a teacher with more layers and another width, both again with soft-capped logits, a teacher with experts, and
    answers, in both token forms."""
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    ends = dict(pad_token_id=0, eos_token_id=1, bos_token_id=1)
    tiny_models.write_model(tiny_models.config_of("llama", num_hidden_layers=4, **ends), folder / "student")
    tiny_models.write_model(tiny_models.config_of("qwen3", num_hidden_layers=6, hidden_size=96, **ends), folder / "teacher")
    tiny_models.write_model(tiny_models.config_of("gemma2", **ends), folder / "capped")
    tiny_models.write_model(tiny_models.config_of("gemma2", hidden_size=96, final_logit_softcapping=3.0, **ends), folder / "capped_teacher")
    tiny_models.write_model(tiny_models.config_of("qwen3_moe", hidden_size=96, **ends), folder / "experts")
    pairs = [{"prompt_ids": pair["prompt_ids"], "completion_ids": pair["chosen_ids"]} for pair in peers.answers(count=STEPS * BATCH)]
    tiny_models.write_rows(folder / "pairs.jsonl", pairs)
    tiny_models.write_rows(folder / "rows.jsonl", [row_of(pair) for pair in pairs])
    return folder


def row_of(pair):
    prompt, completion = pair["prompt_ids"], pair["completion_ids"]
    return {"input_ids": prompt + completion, "labels": [-100] * len(prompt) + completion}


def batch_of(rows):
    """Padded at the end, as a collator gives it."""
    longest = max(len(row["input_ids"]) for row in rows)
    pad = lambda values, with_: values + [with_] * (longest - len(values))
    return {"input_ids": torch.tensor([pad(row["input_ids"], 0) for row in rows]),
            "labels": torch.tensor([pad(row["labels"], -100) for row in rows]),
            "attention_mask": torch.tensor([pad([1] * len(row["input_ids"]), 0) for row in rows])}


def divergence(student, teacher, rows, beta, temperature):
    """TRL's loss of the rows, to differentiate."""
    batch = batch_of(rows)
    ids = {key: batch[key] for key in ("input_ids", "attention_mask")}
    with torch.no_grad():
        theirs = teacher(**ids).logits
    return GKDTrainer.generalized_jsd_loss(student(**ids).logits[:, :-1], theirs[:, :-1], labels=batch["labels"][:, 1:],
                                           beta=beta, temperature=temperature)


@pytest.fixture(scope="module")
def wanted(inputs):
    """Loss and gradients by TRL and autograd, by divergence and temperature."""
    found = {}
    rows = [json.loads(line) for line in (inputs / "rows.jsonl").read_text().splitlines()]

    def of(case):
        key = case["models"], case["beta"], case["temperature"]
        if key not in found:
            student, teacher = (load(inputs / name) for name in case["models"])
            loss = divergence(student, teacher, rows, *key[1:])
            loss.backward()
            found[key] = loss.item(), {name: parameter.grad for name, parameter in student.named_parameters()}
        return found[key]

    return of


@pytest.fixture(scope="module")
def launches(selected, inputs):
    def launch(ranks, mine):
        return run_grads(ranks, [
            ["grads", "--model", inputs / case["models"][0], "--rows", inputs / "pairs.jsonl", "--out", inputs / f"{ranks}-{number}",
             *words_of(["device=cpu", "stage=gkd", f"distillation.teacher={inputs / case['models'][1]}", "tuning.kind=full",
                        f"distillation.beta={case['beta']}", f"distillation.temperature={case['temperature']}",
                        "distillation.lambda=0", "data.max_length=64", "run.global_batch=16", *case["settings"]])]
            for number, case in enumerate(mine)])

    return Launches(selected(test_divergences), lambda case: case["ranks"], launch)


@pytest.mark.parametrize("case", CASES, ids=text)
def test_divergences(case, wanted, launches, record_errors):
    outcome = launches.of(case)
    assert outcome.line is not None, failure_text(outcome.result)[-2500:]
    loss, gradients = wanted(case)
    errors = {"loss": abs(outcome.line["loss"] - loss), "gradient": largest_error(load_file(outcome.out), gradients)}
    record_errors(errors)
    assert_within(errors, LIMITS)


def command(inputs, name, *settings):
    adamw = [f"optimizer.{key}={value}" for key, value in peers.ADAMW.items()]
    (inputs / f"{name}.yaml").write_text("")
    return ["train", inputs / f"{name}.yaml", *words_of([
        "device=cpu", "stage=gkd", f"model.path={inputs / 'student'}", "model.dtype=fp32", "tuning.kind=full",
        f"distillation.teacher={inputs / 'teacher'}", f"data.train=[{inputs / 'rows.jsonl'}]", "data.shuffle=false",
        "data.max_length=64", "rl.max_new_tokens=12", *adamw, f"optimizer.lr={peers.LR}", "optimizer.schedule=constant", "optimizer.clip=0",
        f"run.steps={STEPS}", f"run.global_batch={BATCH}", "save.every=0", f"data.cache={inputs / 'cache'}",
        f"run.output={inputs / 'out' / name}", *settings])]


RUNS = {f"beta {beta}": [f"distillation.beta={beta}", "distillation.lambda=0"] for beta in BETAS}
RUNS |= {"student": ["distillation.lambda=1", "rl.temperature=0.8"],
         "teacher": ["distillation.lambda=0", "distillation.seq_kd=true", "rl.temperature=0.8"],
         "mixed": ["distillation.lambda=0.5"]}


@pytest.fixture(scope="module")
def trained(inputs):
    """One start of the program makes all runs."""
    result = run_many(1, [command(inputs, name, *settings) for name, settings in RUNS.items()])
    assert result.returncode == 0, failure_text(result)[-2500:]
    return lambda name, file="log": [json.loads(line) for line in (inputs / "out" / name / f"{file}.jsonl").read_text().splitlines()]


def peer_log(inputs, beta):
    """Four steps of TRL's trainer on the data's answers."""
    torch.manual_seed(0)
    rows = [json.loads(line) for line in (inputs / "rows.jsonl").read_text().splitlines()]
    settings = {key: value for key, value in peers.settings(inputs / "trl").items() if key != "max_steps"}
    trainer = GKDTrainer(model=load(inputs / "student"), teacher_model=load(inputs / "teacher"), processing_class=peers.tokenizer(),
                         args=GKDConfig(**settings, max_steps=STEPS, lmbda=0.0, beta=beta, remove_unused_columns=False),
                         data_collator=batch_of, train_dataset=datasets.Dataset.from_list(rows))
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    return [line for line in trainer.state.log_history if "loss" in line]


@pytest.mark.parametrize("beta", BETAS)
def test_four_steps(beta, inputs, trained, record_errors):
    found, theirs = trained(f"beta {beta}"), peer_log(inputs, beta)
    assert len(found) == len(theirs) == STEPS
    errors = {"loss": max(abs(mine["loss"] - other["loss"]) for mine, other in zip(found, theirs)),
              "norm": max(relative(mine["grad_norm"], other["grad_norm"]) for mine, other in zip(found, theirs))}
    record_errors(errors)
    assert_within(errors, {"loss": 2e-5, "norm": 1e-4})
    assert found[0]["loss"] != found[-1]["loss"] and not (inputs / "out" / f"beta {beta}" / "rollouts.jsonl").exists()


@pytest.mark.parametrize("name", ("student", "teacher"))
def test_answers_are_their_writers(name, inputs, trained, record_errors):
    """The log-probabilities of what was sampled before the first step are those of the model that should have written it,
    at the temperature of sampling; and the loss is that of these answers, at its own."""
    lines = [line for line in trained(name, "rollouts") if line["step"] == 1]
    assert len(lines) == BATCH and len({tuple(line["completion_ids"]) for line in lines}) > 1
    writer, worst = load(inputs / name), 0.0
    for line in lines:
        prompt, completion = line["prompt_ids"], line["completion_ids"]
        with torch.no_grad():
            logits = writer(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1:-1] / 0.8
        wanted = logits.log_softmax(-1).gather(1, torch.tensor(completion)[:, None])[:, 0]
        worst = max(worst, (wanted - torch.tensor(line["logprobs"])).abs().max().item())
    with torch.no_grad():
        loss = divergence(load(inputs / "student"), load(inputs / "teacher"), [row_of(line) for line in lines], 0.5, 1.0).item()
    errors = {"log-probs": worst, "loss": abs(trained(name)[0]["loss"] - loss)}
    record_errors(errors)
    assert_within(errors, {"log-probs": 1e-5, "loss": 2e-5})


def test_lambda_mixes_steps(trained):
    log, lines = trained("mixed"), trained("mixed", "rollouts")
    own = [line["step"] for line in log if line["on_policy"] == 1]
    assert 0 < len(own) < STEPS and {line["step"] for line in lines} == set(own), (own, {line["step"] for line in lines})


def test_a_teacher_that_is_the_student_teaches_nothing(inputs):
    [outcome] = run_grads(1, [["grads", "--model", inputs / "student", "--rows", inputs / "pairs.jsonl", "--out", inputs / "same",
                               *words_of(["device=cpu", "stage=gkd", f"distillation.teacher={inputs / 'student'}", "tuning.kind=full",
                                          "distillation.lambda=0", "data.max_length=64"])]])
    assert outcome.line is not None, failure_text(outcome.result)[-2500:]
    assert abs(outcome.line["loss"]) < 1e-6 and outcome.line["grad_norm"] < 1e-6, outcome.line
