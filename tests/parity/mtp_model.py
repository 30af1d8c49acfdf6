"""Multi-token prediction as DeepSeek-V3 has it, put together from transformers' own decoder layer, norm and embedding,
for transformers itself has none: the reference of its losses and gradients, and a model's files with its layers."""
import collections

import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import cross_entropy
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3DecoderLayer, DeepseekV3RMSNorm

import tiny_models
from gradients import Reference
from routers import Routers, choice_rates

LAYERS, DEPTHS = 4, 2  # of the model; those behind them
MtpReference = collections.namedtuple("MtpReference", "reference mtp_loss")


class Depth(torch.nn.Module):
    """One further token: [embedding ; hidden state], each normalised, through a projection, a layer and a norm."""

    def __init__(self, config, index):
        super().__init__()
        norms = [DeepseekV3RMSNorm(config.hidden_size, config.rms_norm_eps) for _ in range(3)]
        self.enorm, self.hnorm, self.norm = norms
        self.eh_proj = torch.nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)
        self.layer = DeepseekV3DecoderLayer(config, index)

    def forward(self, embedded, hidden, rotary):
        joined = self.eh_proj(torch.cat([self.enorm(embedded), self.hnorm(hidden)], -1))
        count = joined.shape[1]
        positions = torch.arange(count)[None]
        mask = torch.full((count, count), float("-inf")).triu(1)[None, None]
        return self.norm(self.layer(joined, attention_mask=mask, position_ids=positions,
                                    position_embeddings=rotary(joined, positions)))

    def in_files(self, prefix, of):
        """What `of` says of each parameter, under the names of files."""
        found = {}
        for name, tensor in self.state_dict(keep_vars=True).items():
            name = "shared_head.norm.weight" if name == "norm.weight" else name.removeprefix("layer.")
            if (value := of(tensor)) is not None:
                found |= tiny_models.in_files(prefix + name, value, "deepseek_v3")
        return found


def write_model(folder, **changes):
    """transformers' model and the depths behind it, with all of their weights in the folder's files."""
    config = tiny_models.config_of("deepseek_v3", num_hidden_layers=LAYERS, num_nextn_predict_layers=DEPTHS, **changes)
    model = tiny_models.write_model(config, folder)
    depths = [Depth(config, LAYERS + k) for k in range(DEPTHS)]
    with torch.no_grad():
        for tensor in (tensor for depth in depths for tensor in depth.state_dict().values()):
            tensor.copy_(torch.randn_like(tensor) * 0.1 if tensor.dim() > 1 else 1 + torch.randn_like(tensor) * 0.2)
    file = folder / "model.safetensors"
    tensors = load_file(file)
    for k, depth in enumerate(depths):
        prefix = f"model.layers.{LAYERS + k}."
        tensors |= depth.in_files(prefix, lambda tensor: tensor.detach().contiguous())
        tensors[prefix + "embed_tokens.weight"] = model.model.embed_tokens.weight.detach().clone()
        tensors[prefix + "shared_head.head.weight"] = model.lm_head.weight.detach().clone()
    save_file(tensors, file, metadata={"format": "pt"})
    return model, depths


def hidden_states(model, depths, ids):
    """One for the next token and one for each further: behind the norms that come before the logits."""
    ids = torch.tensor([ids])
    hidden = model.model(input_ids=ids).last_hidden_state
    yield hidden
    for k, depth in enumerate(depths, 1):
        places = ids.shape[1] - k
        if places <= 0:
            return
        hidden = depth(model.model.embed_tokens(ids[:, k:]), hidden[:, :places], model.model.rotary_emb)
        yield hidden


def targets(row, k):
    """The labels that the places of depth k are trained on, as many as have one."""
    return torch.tensor(row["labels"][k + 1:])


def losses(model, depths, rows):
    """The mean loss of every depth, the next token's first, each over its own trained tokens of all rows."""
    sums = [torch.zeros(()) for _ in range(1 + len(depths))]
    counts = [sum(int((targets(row, k) != -100).sum()) for row in rows) for k in range(1 + len(depths))]
    for row in rows:
        for k, hidden in enumerate(hidden_states(model, depths, row["input_ids"])):
            logits = model.lm_head(hidden[0, :-1]).float()
            if len(logits):
                sums[k] = sums[k] + cross_entropy(logits, targets(row, k), ignore_index=-100, reduction="sum")
    return [total / count for total, count in zip(sums, counts)]


def balance_loss(layers, rows, depths):
    """Of what all routers said, in the order of their calls: of each row the model's, then those of the depths that
    reach into it. Every token counts once, beside those of its row, and a layer's tokens are those that it sees."""
    loss, layers = 0.0, iter(layers)
    places = [sum(max(len(row["input_ids"]) - k, 0) for row in rows) for k in range(1 + depths)]
    for row in rows:
        own = [0] * (LAYERS - 1)  # the first layer is dense
        for k in own + [k for k in range(1, 1 + depths) if len(row["input_ids"]) > k]:
            _, shares, chosen = next(layers)
            rates = choice_rates(chosen, shares.shape[1]).mean(0).detach()
            loss = loss + shares.shape[1] / chosen.shape[1] * (shares * rates).sum() / places[k]
    return loss


def reference(model, depths, rows, weight, folder, balance=0.0):
    """What losses and gradients are to be, of rows and weights in the folder."""
    everything = torch.nn.ModuleList([model, *depths])
    everything.zero_grad()
    routers = Routers(everything)
    main, *further = losses(model, depths, rows)
    routers.close()
    total = main + weight / len(depths) * sum(further)
    (total + balance * balance_loss(routers.layers, rows, len(depths))).backward()
    gradients = tiny_models.gradients(model)
    for k, depth in enumerate(depths):
        gradients |= depth.in_files(f"model.layers.{LAYERS + k}.",
                                    lambda tensor: None if tensor.grad is None else tensor.grad.clone())
    gradients = {name: gradient.clone() for name, gradient in gradients.items()}
    alone = Reference(folder / "model", folder / "rows.jsonl", main.item(), tiny_models.trained_tokens(rows),
                      tiny_models.norm_of(gradients.values()), gradients)
    return MtpReference(alone, [loss.item() for loss in further])
