"""What the routers of a transformers model compute while it runs."""
import math

import torch


class Routers:
    """What a model's routers say while it runs: logits and choices of each layer, one entry a forward pass. With a
    capacity, choices beyond it lose their weight."""

    def __init__(self, model, capacity=None, real=None):
        self.layers, self.capacity, self.real, self.dropped = [], capacity, real, 0
        found = [module for module in model.modules() if type(module).__name__.endswith("Router")]
        self.hooks = [module.register_forward_hook(self.see) for module in found]

    def see(self, module, inputs, outputs):
        logits, weights, chosen = outputs
        sigmoid = hasattr(module, "e_score_correction_bias")
        scores = logits.float().sigmoid() if sigmoid else logits.float().softmax(-1)
        self.layers.append((logits.float(), scores / scores.sum(-1, keepdim=True), chosen))
        if self.capacity is None:
            return None
        kept = self.within_capacity(weights.detach(), chosen, logits.shape[1])
        return logits, weights * kept, chosen

    def within_capacity(self, weights, chosen, experts):
        kept = self.real.reshape(-1, 1).expand_as(chosen).clone()
        capacity = math.ceil(self.capacity * kept.sum().item() / experts)
        for expert in range(experts):
            of_expert = ((chosen == expert) & kept).nonzero().tolist()
            of_expert.sort(key=lambda place: -weights[place[0], place[1]].item())
            for token, choice in of_expert[capacity:]:
                kept[token, choice] = False
                self.dropped += 1
        return kept

    def close(self):
        for hook in self.hooks:
            hook.remove()


def choice_rates(chosen, experts):
    return torch.nn.functional.one_hot(chosen, experts).sum(1).float()  # [tokens, experts]
