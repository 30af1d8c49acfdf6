"""Attention with dropout on npu:0 against plain attention on the CPU with the very mask that was drawn, values and
gradients; and models whose attention drops by default, in training."""
import pytest
import torch
import torch_npu
from transformers import BertConfig, BertModel, GPT2Config, GPT2Model

B, N, S, D, KEEP, SCALE = 2, 4, 12, 12, 0.7, 0.3


def fused(q, k, v, layout, heads, **settings):
    """Inputs [b, n, s, d]; always draws the same mask for as many scores."""
    order, back = {
        "BNSD": (lambda t: t, lambda t: t), "BSND": (lambda t: t.transpose(1, 2), lambda t: t.transpose(1, 2)),
        "BSH": (lambda t: t.transpose(1, 2).flatten(2), lambda t: t.unflatten(2, (heads, -1)).transpose(1, 2)),
        "SBH": (lambda t: t.permute(2, 0, 1, 3).flatten(2), lambda t: t.unflatten(2, (heads, -1)).permute(1, 2, 0, 3)),
    }[layout]
    torch.npu.manual_seed(11)
    return back(torch_npu.npu_fusion_attention(order(q), order(k), order(v), heads, layout, scale=SCALE, keep_prob=KEEP,
                                               **settings)[0])


def plain(q, k, v, kept, hidden=None):
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    scores = q @ k.transpose(-1, -2) * SCALE
    if hidden is not None:
        scores = scores.masked_fill(hidden, -torch.inf)
    return (scores.softmax(-1) * kept / KEEP) @ v


def with_gradients(function, tensors):
    leaves = [t.detach().clone().requires_grad_() for t in tensors]
    out = function(*leaves)
    return [out, *torch.autograd.grad((out ** 2).sum(), leaves)]


def close(found, wanted, what, limit=1e-5):
    for name, f, w in zip(("the result", "the gradient of q", "of k", "of v"), found, wanted):
        worst = (f.detach().cpu().float() - w.detach()).abs().max().item() / max(1, w.detach().abs().max().item())
        assert worst <= limit, f"{what}: {name} differs by {worst:.2e}; at most {limit:.0e}"


def inputs(key_heads, value_size=D, dtype=torch.float32):
    g = torch.Generator().manual_seed(3)
    shapes = (B, N, S, D), (B, key_heads, S, D), (B, key_heads, S, value_size)
    return [torch.randn(shape, generator=g).to(dtype) for shape in shapes]


def compare(layout, key_heads=N, value_size=D, dtype=torch.float32, limit=1e-5, **settings):
    what = f"{layout}, {key_heads} key heads, values of {value_size}, {dtype}"
    q, k, v = inputs(key_heads, value_size, dtype)
    hidden = settings["atten_mask"].cpu() if "atten_mask" in settings else None
    on_npu = [t.npu() for t in (q, k, v)]
    # With the unit matrix for values the result is what the probabilities are after dropout.
    unit = torch.eye(S, dtype=dtype).expand(B, key_heads, S, S).npu()
    kept = (fused(*on_npu[:2], unit, layout, N, **settings) != 0).cpu()
    seen = torch.ones(S, S) if hidden is None else (~hidden).float()
    share = (kept * seen).sum().item() / (seen.sum().item() * B * N)
    assert abs(share - KEEP) < 0.08, f"{what}: {share:.2f} of the probabilities were kept; wanted about {KEEP}"
    found = with_gradients(lambda *t: fused(*t, layout, N, **settings), on_npu)
    wanted = with_gradients(lambda *t: plain(*t, kept, hidden), [t.float() for t in (q, k, v)])
    close(found, wanted, what, limit)


@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH", "SBH"])
def test_order_of_dims(layout):
    compare(layout)


@pytest.mark.parametrize("layout, sizes", [("BNSD", dict(key_heads=2)), ("BSND", dict(key_heads=1, value_size=7)),
                                           ("BNSD", dict(value_size=20))])
def test_fewer_key_heads_and_another_value_size(layout, sizes):
    compare(layout, **sizes)


@pytest.mark.parametrize("layout, settings", [
    ("BNSD", {}), ("BSH", dict(key_heads=2, sparse_mode=2, next_tockens=0))])
def test_masks(layout, settings):
    compare(layout, atten_mask=torch.ones(S, S, dtype=torch.bool).triu(1).npu(), **settings)


def test_bf16():
    compare("BNSD", dtype=torch.bfloat16, limit=0.02)


def test_packed_sequences():
    ends, lengths = [3, 8, 12], [(0, 3), (3, 8), (8, 12)]
    q, k, v = (t[0].transpose(0, 1).contiguous() for t in inputs(N))  # [tokens, heads, size]

    def attend(q, k, v):
        torch.npu.manual_seed(11)
        return torch_npu.npu_fusion_attention(q, k, v, N, "TND", scale=SCALE, keep_prob=KEEP, actual_seq_qlen=ends,
                                              actual_seq_kvlen=ends)[0]

    unit = torch.zeros(S, N, D)
    for begin, end in lengths:
        unit[begin:end, :, :end - begin] = torch.eye(end - begin).unsqueeze(1)
    dropped = attend(q.npu(), k.npu(), unit.npu()).cpu()
    found = with_gradients(attend, [t.npu() for t in (q, k, v)])

    def one_by_one(q, k, v):
        parts = []
        for begin, end in lengths:
            cut = [t[begin:end].transpose(0, 1).unsqueeze(0) for t in (q, k, v)]
            kept = (dropped[begin:end, :, :end - begin] != 0).transpose(0, 1).unsqueeze(0)
            parts.append(plain(*cut, kept)[0].transpose(0, 1))
        return torch.cat(parts)

    close(found, with_gradients(one_by_one, (q, k, v)), "packed sequences")


def test_another_seed_draws_another_mask():
    q, k, v = (t.npu() for t in inputs(N))
    first = fused(q, k, v, "BNSD", N).cpu()
    assert torch.equal(first, fused(q, k, v, "BNSD", N).cpu()), "the same seed gave another result"
    torch.npu.manual_seed(12)
    other = torch_npu.npu_fusion_attention(q, k, v, N, "BNSD", scale=SCALE, keep_prob=KEEP)[0].cpu()
    assert not torch.equal(first, other), "another seed gave the same result"


def train(model, batch, name):
    """One step in training mode on the NPU with the model's own dropout; and evaluation as the CPU has it."""
    model.eval()
    wanted = batch(model, "cpu")
    model.npu()
    found = batch(model, "npu:0")
    assert torch.allclose(found.cpu(), wanted, atol=1e-4, rtol=1e-4), f"{name}: evaluation differs from the CPU's"
    model.train()
    torch.npu.manual_seed(1)
    first = batch(model, "npu:0")
    assert not torch.allclose(first.cpu(), wanted, atol=1e-4), f"{name}: nothing was dropped in training"
    first.square().mean().backward()
    for parameter in model.parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), f"{name}: a gradient is not finite"
    torch.npu.manual_seed(1)
    assert torch.equal(batch(model, "npu:0").detach().cpu(), first.detach().cpu()), f"{name}: a seed gives two results"


X = torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(0))
IDS = torch.randint(0, 50, (2, 9), generator=torch.Generator().manual_seed(0))


def encoder_layer():
    return torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), lambda m, d: m(X.to(d))


def gpt2():
    small = {"vocab_size": 50, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 16}
    return GPT2Model(GPT2Config(**small)), lambda m, d: m(IDS.to(d)).last_hidden_state


def bert():
    config = BertConfig(vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                        max_position_embeddings=16)
    return BertModel(config), lambda m, d: m(IDS.to(d)).last_hidden_state


@pytest.mark.parametrize("make", [encoder_layer, gpt2, bert])
def test_models_that_drop_by_default(make):
    torch.manual_seed(0)
    train(*make(), make.__name__)
