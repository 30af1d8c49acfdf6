"""Greedy decoding by transformers, with the margin by which its tokens won."""
import torch

from tiny_models import depends_on_length

NEW = 10  # tokens per row
CLEAR = 2e-3  # a token that won by less may differ by rounding alone, which proves nothing


def likeliest(model, ids, count=NEW, ends=None):
    """The new tokens, and by how much the least clear of them won. Where the length of a row decides about its rotary embedding, each
    token comes from the whole row computed anew."""
    given = torch.tensor([ids])
    out = model.generate(given, attention_mask=torch.ones_like(given), do_sample=False, max_new_tokens=count,
                         eos_token_id=ends, pad_token_id=0, use_cache=not depends_on_length(model.config), return_dict_in_generate=True, output_logits=True)
    best = torch.stack(out.logits)[:, 0].topk(2).values
    return out.sequences[0, len(ids):].tolist(), (best[:, 0] - best[:, 1]).min().item()
