"""TRL's GRPO and RLOO made deterministic peers: they train on given completions with given rewards, on the CPU in fp32, one
micro batch per update. Gives the log of every step and the advantages. Asserts nothing itself."""
import random

import preference_peers as peers  # sets the environment up before trl is imported

import datasets
import torch
import transformers
import trl
import trl.trainer.grpo_trainer as grpo_trainer
import trl.trainer.rloo_trainer as rloo_trainer
from trl.trainer.utils import add_fused_lm_head

import tiny_models

STEPS, GROUP, BATCH, PROMPTS, LONGEST = 4, 4, 8, 4, 16
LR = 4e-4
END = 1  # the model's eos_token_id; 0 is padding
grpo_trainer.shuffle_sequence_dict = lambda rows: rows
rloo_trainer.shuffle_sequence_dict = lambda rows: rows


def rollouts(seed=5, prompts=PROMPTS):
    """Groups of completions, some of which end and some of which do not, with two rewards, of which some are missing."""
    generator = random.Random(seed)

    def ids(least, most):
        return [generator.randrange(2, tiny_models.VOCABULARY) for _ in range(generator.randrange(least, most))]

    lines = []
    for group in range(prompts):
        prompt = ids(1 if group == 0 else 3, 9)
        for index in range(GROUP):
            completion = ids(1, LONGEST) + ([END] if index % 3 else [])
            lines.append({"step": 1, "group": group, "prompt_ids": prompt, "completion_ids": completion,
                          "rewards": {"first": round(generator.uniform(-1, 1), 3),
                                      "second": None if generator.random() < 0.3 else float(generator.randrange(3))}})
    lines[2]["rewards"] = {"first": None, "second": None}  # nothing is known of it
    return lines


def with_log_probs(lines, model, seed=6, noise=0.3):
    """The same with a sampler's log-probabilities: the model's, and some noise."""
    generator = random.Random(seed)
    model = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    for line in lines:
        prompt, completion = line["prompt_ids"], line["completion_ids"]
        with torch.no_grad():
            logits = model(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1:-1]
        found = logits.log_softmax(-1).gather(1, torch.tensor(completion)[:, None])[:, 0].tolist()
        line["logprobs"] = [min(value + generator.gauss(0, noise), 0.0) for value in found]
    return lines


def with_environment(lines, seed=8):
    """The same with some tokens that an environment wrote; the first and the last are the model's."""
    generator = random.Random(seed)
    return [{**line, "env_mask": [int(index in (0, len(line["completion_ids"]) - 1) or generator.random() < 0.6)
                                  for index in range(len(line["completion_ids"]))]} for line in lines]


def with_scaled_rewards(lines):
    """The same with REINFORCE++'s advantages as rewards: minus the group's mean, over the deviation of all differences in
    one sampling."""
    scaled = [dict(line) for line in lines]
    for first in range(0, len(lines), BATCH):
        batch, differences = scaled[first:first + BATCH], {}
        for start in range(0, len(batch), GROUP):
            known = {start + index: line["rewards"]["first"] for index, line in enumerate(batch[start:start + GROUP])
                     if line["rewards"]["first"] is not None}
            differences |= {index: value - sum(known.values()) / len(known) for index, value in known.items()}
        deviation = torch.tensor(list(differences.values()), dtype=torch.float64).std().item()
        for index, line in enumerate(batch):
            line["rewards"] = {"first": differences[index] / (deviation + 1e-4) if index in differences else None}
    return scaled


def reward(name, lines):
    """A reward function that gives what the rollouts say."""
    table = {tuple(line["completion_ids"]): line["rewards"][name] for line in lines}
    assert len(table) == len(lines)

    def given(completion_ids, **others):
        return [table[tuple(ids)] for ids in completion_ids]

    given.__name__ = name
    return given


def chosen(prompts, lines):
    """The rollouts of repeated prompts, whose texts are their numbers."""
    seen, found = {}, []
    for prompt in prompts:
        number = int(prompt)
        found.append(lines[number * GROUP + seen.setdefault(number, 0)])
        seen[number] += 1
    return found


def replay(lines):
    """A rollout_func."""
    def func(prompts, trainer):
        keys = [key for key in ("prompt_ids", "completion_ids", "logprobs", "env_mask") if key in lines[0]]
        return {key: [line[key] for line in chosen(prompts, lines)] for key in keys}
    return func


def replay_in(trainer, lines):
    """The same for a trainer without such a function."""
    now = []

    def tokenize(prompts):
        now[:] = chosen(prompts, lines)
        return [line["prompt_ids"] for line in now], None, {}

    trainer._tokenize_prompts = tokenize
    trainer._generate_single_turn = lambda *others: [line["completion_ids"] for line in now]


class Idle:
    """In place of vLLM: its log-probabilities are the rollouts'."""
    def sync_weights(self):
        pass


def settings(folder, **more):
    base = {key: value for key, value in peers.settings(folder).items()
            if key not in ("train_sampling_strategy", "max_length", "per_device_train_batch_size", "max_steps")}
    return base | dict(learning_rate=LR, shuffle_dataset=False, per_device_train_batch_size=BATCH, max_steps=STEPS,
                       num_generations=GROUP, max_completion_length=LONGEST) | more


def train(stage, model, reference, lines, folder, rewards=("first",), corrected=False, **more):
    """The log of each step and all advantages. reference: a folder, or None for the model itself."""
    torch.manual_seed(0)
    make, config = {"grpo": (trl.GRPOTrainer, trl.GRPOConfig), "rloo": (trl.RLOOTrainer, trl.RLOOConfig)}[stage]
    arguments = config(**settings(folder, **more))
    data = datasets.Dataset.from_list([{"prompt": str(number)} for number in range(len(lines) // GROUP)])
    replayed = dict(rollout_func=replay(lines)) if stage == "grpo" else {}
    trainer = make(model=str(model), processing_class=peers.tokenizer(), args=arguments, train_dataset=data,
                   reward_funcs=[reward(name, lines) for name in rewards], **replayed)
    if stage == "rloo":
        replay_in(trainer, lines)
    if reference is not None and arguments.beta != 0:
        trainer.ref_model = transformers.AutoModelForCausalLM.from_pretrained(reference, dtype=torch.float32)
        add_fused_lm_head(trainer.ref_model, temperature=arguments.temperature)
        for callback in trainer.callback_handler.callbacks:
            if isinstance(callback, grpo_trainer.SyncRefModelCallback):
                callback.ref_model = trainer.ref_model
    if corrected:
        trainer.use_vllm, trainer._last_loaded_step, trainer.vllm_generation = True, -1, Idle()
    trainer.remove_callback(transformers.PrinterCallback)
    advantages = []
    extend = trainer._generate_and_score_completions

    def recorded(inputs):
        output = extend(inputs)
        advantages.extend(output["advantages"].tolist())
        return output

    trainer._generate_and_score_completions = recorded
    trainer.train()
    return [line for line in trainer.state.log_history if "loss" in line], advantages

