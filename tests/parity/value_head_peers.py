"""PPO as LLaMA-Factory has it, with the rules of TRL 0.9 in plain torch: one model of transformers, or a PEFT adapter on one,
with a linear value head on its last hidden states; one loss, one optimizer. Trains on given completions, on the CPU in fp32,
one row at a time. Asserts nothing itself."""
import contextlib
import random

import peft
import safetensors.torch
import torch
import transformers

import reward_peers
import tiny_models

BATCH, LONGEST, END = 8, 14, 1
LR = 0.05  # of plain gradient descent: what the weights lost, divided by it, is the sum of their gradients
LORA = dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"], task_type="CAUSAL_LM")
HEAD = ("v_head.summary.weight", "v_head.summary.bias")
CAUSAL = transformers.AutoModelForCausalLM


def rollouts(seed=9, prompts=16, group=1):
    """Completions of several lengths, some without an end."""
    generator = random.Random(seed)

    def ids(least, most):
        return [generator.randrange(2, tiny_models.VOCABULARY) for _ in range(generator.randrange(least, most))]

    lines = []
    for number in range(prompts):
        prompt = ids(1 if number == 0 else 2, 9)
        for index in range(group):
            completion = ids(1, LONGEST) + ([END] if (number + index) % 3 else [])
            lines.append({"step": 1, "group": number, "prompt_ids": prompt, "completion_ids": completion,
                          "rewards": {"given": generator.uniform(-1, 1)}})
    return lines


def write_head(folder, hidden):
    """A head whose values tell states apart."""
    torch.manual_seed(4)
    safetensors.torch.save_file({HEAD[0]: torch.randn(1, hidden) * 0.2, HEAD[1]: torch.tensor([0.15])},
                                folder / "value_head.safetensors")


def write_adapter(model, folder):
    reward_peers.save_adapter(CAUSAL.from_pretrained(model, dtype=torch.float32), LORA, folder)


class Policy(torch.nn.Module):
    def __init__(self, model, adapter=None):
        super().__init__()
        self.model = CAUSAL.from_pretrained(model, dtype=torch.float32)
        if adapter:
            self.model = peft.PeftModel.from_pretrained(self.model, adapter, is_trainable=True)
        head = safetensors.torch.load_file((adapter or model) / "value_head.safetensors")
        self.v_head = torch.nn.Linear(self.model.config.hidden_size, 1)
        self.v_head.load_state_dict({name.rsplit(".", 1)[1]: tensor for name, tensor in head.items()})

    def forward(self, line):
        """Of each token of the completion: its log-probability, and the value before it."""
        ids = torch.tensor([line["prompt_ids"] + line["completion_ids"]])
        first = len(line["prompt_ids"]) - 1
        found = self.model(ids, output_hidden_states=True)
        log_probs = found.logits[0, first:-1].float().log_softmax(-1)
        values = self.v_head(found.hidden_states[-1])[0, first:-1, 0]
        return log_probs.gather(1, ids[0, first + 1:, None])[:, 0], values

    def tensors(self):
        """What is trained, as files name it: the model's or the adapter's, and the head's."""
        if isinstance(self.model, peft.PeftModel):
            found = peft.get_peft_model_state_dict(self.model)
        else:
            found = dict(self.model.named_parameters())
        head = zip(HEAD, (self.v_head.weight, self.v_head.bias))
        return {name: tensor.detach().clone() for name, tensor in [*found.items(), *head]}


def whitened(rows, keep_mean):
    flat = torch.cat(rows)
    scale = (flat.var(unbiased=True) + 1e-8).rsqrt()
    return [(row - flat.mean()) * scale + (flat.mean() if keep_mean else 0) for row in rows]


def targets_of(lines, old, reference, values, kl_coef, options):
    """The score is a part of the last token's reward; the value after it is 0."""
    rewards = []
    for line, mine, theirs in zip(lines, old, reference):
        reward = -kl_coef * (mine - theirs)
        reward[-1] += line["rewards"]["given"]
        rewards.append(reward)
    if options["whiten_rewards"]:
        rewards = whitened(rewards, keep_mean=True)
    advantages = []
    for reward, value in zip(rewards, values):
        row, later, following = [], 0.0, 0.0
        for t in reversed(range(len(reward))):
            later = reward[t] + options["gamma"] * following - value[t] + options["gamma"] * options["lam"] * later
            following = value[t]
            row.insert(0, later)
        advantages.append(torch.stack(row))
    returns = [advantage + value for advantage, value in zip(advantages, values)]
    return rewards, returns, whitened(advantages, keep_mean=False)


def losses_of(policy, rows, options):
    """Both are means over the answers' tokens of the whole update."""
    new, values = map(torch.cat, zip(*(policy(row["line"]) for row in rows)))
    old, old_values, returns, advantages = (torch.cat([row[key] for row in rows])
                                            for key in ("old", "values", "returns", "advantages"))
    ratio = (new - old).exp()
    clip, range_ = options["cliprange"], options["cliprange_value"]
    policy_loss = torch.max(-advantages * ratio, -advantages * ratio.clamp(1 - clip, 1 + clip)).mean()
    clipped = torch.min(torch.max(values, old_values - range_), old_values + range_)
    free, bound = (values - returns) ** 2, (clipped - returns) ** 2
    return policy_loss, 0.5 * torch.max(free, bound).mean(), (bound > free).float().mean()


OPTIONS = dict(gamma=1.0, lam=0.95, vf_coef=0.1, cliprange=0.2, cliprange_value=0.2, whiten_rewards=False, kl_target=0.0,
               kl_horizon=10000.0)


def train(policy, reference, lines, samplings, epochs, parts, kl_coef, options):
    """reference: a model, or None for the policy's own without its adapter. What becomes of each completion and update."""
    options = OPTIONS | options
    before = policy.tensors()
    optimizer = torch.optim.SGD([p for p in policy.parameters() if p.requires_grad], lr=LR)
    without = policy.model.disable_adapter if reference is None else contextlib.nullcontext
    completions, updates = [], []
    for sampling in range(samplings):
        chosen = lines[sampling * parts * BATCH:(sampling + 1) * parts * BATCH]
        with torch.no_grad():
            old, values = zip(*(policy(line) for line in chosen))
            with without():
                theirs = [(policy if reference is None else reference)(line)[0] for line in chosen]
        rewards, returns, advantages = targets_of(chosen, old, theirs, values, kl_coef, options)
        rows = [dict(line=line, old=a, values=b, rewards=c, returns=d, advantages=e)
                for line, a, b, c, d, e in zip(chosen, old, values, rewards, returns, advantages)]
        completions += [{"token_rewards": row["rewards"].tolist(), "values": row["values"].tolist(),
                         "returns": row["returns"].tolist(), "token_advantages": row["advantages"].tolist()} for row in rows]
        kl = sum((a - b).sum().item() for a, b in zip(old, theirs)) / len(chosen)
        for _ in range(epochs):
            for part in range(parts):
                optimizer.zero_grad()
                of_policy, of_values, clips = losses_of(policy, rows[part * BATCH:(part + 1) * BATCH], options)
                loss = of_policy + options["vf_coef"] * of_values
                loss.backward()
                norm = torch.cat([p.grad.flatten() for p in policy.parameters() if p.grad is not None]).norm()
                optimizer.step()
                updates.append({"loss": loss.item(), "grad_norm": norm.item(), "loss/policy_avg": of_policy.item(),
                                "loss/value_avg": of_values.item(), "val/clipfrac_avg": clips.item()})
        if options["kl_target"]:
            error = min(max(kl / options["kl_target"] - 1, -0.2), 0.2)
            kl_coef *= 1 + error * len(chosen) / options["kl_horizon"]
    return {"completions": completions, "updates": updates, "before": before, "after": policy.tensors()}
