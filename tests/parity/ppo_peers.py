"""TRL's PPOTrainer, which its later versions do not have, made a deterministic peer: it trains on given completions, on the CPU
in fp32. Run as a script, with that version first on the module path: ppo_peers.py JOB.json RESULTS.json. Asserts nothing
itself. As a module: rollouts with the scores of a reward model."""
import inspect
import json
import random
import sys

import preference_peers as peers  # sets the environment up before trl is imported

import datasets
import torch
import transformers

import tiny_models

BATCH, LONGEST, END, PAD = 8, 14, 1, 0
LR = 3e-4
CLASSIFIER = transformers.AutoModelForSequenceClassification


def rollouts(model, seed=9, prompts=16, group=1):
    """Completions of several lengths, some without an end, with the reward model's scores at their last tokens."""
    generator = random.Random(seed)

    def ids(least, most):
        return [generator.randrange(2, tiny_models.VOCABULARY) for _ in range(generator.randrange(least, most))]

    judge = CLASSIFIER.from_pretrained(model, dtype=torch.float32)
    lines = []
    for number in range(prompts):
        prompt = ids(1 if number == 0 else 2, 9)
        for index in range(group):
            completion = ids(1, LONGEST) + ([END] if (number + index) % 3 else [])
            with torch.no_grad():
                score = judge(torch.tensor([prompt + completion])).logits[0, 0].item()
            lines.append({"step": 1, "group": number, "prompt_ids": prompt, "completion_ids": completion,
                          "rewards": {"model": score}})
    return lines


def left_padded(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor([[PAD] * (longest - len(row)) + row for row in rows])


def right_padded(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


def tokens_of(table, lengths):
    """Rows without their padding; None where a state is beyond the table."""
    return [row[:length].tolist() for row, length in zip(table, lengths)]


class Recorder:
    """Replays the completions, and keeps what the trainer computes of them."""

    def __init__(self, module, lines, batch):
        self.module, self.lines, self.batch, self.next = module, lines, batch, 0
        self.completions, self.updates = [], []
        module.batch_generation = self.generate
        module.np.random.permutation = self.permutation

    def generate(self, model, queries, size, pad, config):
        chosen = self.lines[self.next:self.next + self.batch]
        self.next += self.batch
        assert queries.tolist() == left_padded([line["prompt_ids"] for line in chosen]).tolist()
        responses = right_padded([line["completion_ids"] for line in chosen])
        both = torch.cat([queries, responses], 1)
        with torch.no_grad():
            logits = self.module.forward(model, both, pad).logits[:, queries.shape[1] - 1:-1]
        return both, logits / config.temperature

    def permutation(self, count):
        """Called by train() when it knows everything of a sampling, once in each epoch."""
        known = inspect.currentframe().f_back.f_locals
        if known["ppo_epoch_idx"] == 0:
            tokens = (~known["padding_mask"]).sum(1).tolist()
            states = (~known["padding_mask_p1"]).sum(1).tolist()
            found = {"token_rewards": tokens_of(known["rewards"], states), "values": tokens_of(known["values"], states),
                     "returns": tokens_of(known["returns"], states),
                     "token_advantages": tokens_of(known["advantages"], tokens)}
            self.completions += [dict(zip(found, row)) for row in zip(*found.values())]
        return torch.arange(count).numpy()

    def watch(self, trainer):
        backward = trainer.accelerator.backward

        def recorded(loss, **more):
            backward(loss, **more)
            norm = lambda model: torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).norm().item()
            self.updates.append({"loss": loss.item(), "grad_norm": norm(trainer.policy_model),
                                 "value/grad_norm": norm(trainer.value_model)})

        trainer.accelerator.backward = recorded


def train(job):
    """What the trainer computes of each completion, each update, and each sampling."""
    import trl.experimental.ppo.ppo_trainer as module
    torch.set_num_threads(1)
    torch.manual_seed(0)
    lines = [json.loads(line) for line in open(job["rollouts"])]
    batch = BATCH * job["arguments"].get("num_mini_batches", 1)
    load = lambda kind, path: kind.from_pretrained(path, dtype=torch.float32)
    tokenizer = peers.tokenizer()
    tokenizer.padding_side = "left"
    settings = {key: value for key, value in peers.settings(job["output"]).items()
                if key not in ("train_sampling_strategy", "max_length", "per_device_train_batch_size", "max_steps")}
    arguments = module.PPOConfig(**settings | dict(learning_rate=LR, per_device_train_batch_size=batch, response_length=LONGEST,
                                                   stop_token="eos", num_sample_generations=0,
                                                   total_episodes=job["samplings"] * batch) | job["arguments"])
    data = datasets.Dataset.from_list([{"input_ids": line["prompt_ids"]} for line in lines] * 2)
    trainer = module.PPOTrainer(args=arguments, processing_class=tokenizer, train_dataset=data,
                                model=load(transformers.AutoModelForCausalLM, job["model"]),
                                ref_model=load(transformers.AutoModelForCausalLM, job["reference"]),
                                reward_model=load(CLASSIFIER, job["reward"]), value_model=load(CLASSIFIER, job["value"]))
    trainer.dataloader = torch.utils.data.DataLoader(data, batch_size=batch, collate_fn=trainer.data_collator, drop_last=True)
    trainer.remove_callback(transformers.PrinterCallback)
    recorder = Recorder(module, lines, batch)
    recorder.watch(trainer)
    trainer.train()
    log = [line for line in trainer.state.log_history if "objective/kl" in line]
    return {"completions": recorder.completions, "updates": recorder.updates, "samplings": log}


if __name__ == "__main__":
    transformers.utils.logging.set_verbosity_error()
    jobs = json.load(open(sys.argv[1]))
    json.dump({name: train(job) for name, job in jobs.items()}, open(sys.argv[2], "w"))
