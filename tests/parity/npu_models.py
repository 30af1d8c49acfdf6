"""Tiny models that transformers and torch train on the CPU and on npu: for npu_training_test.py, and, as a script, one of
its ranks under DistributedDataParallel over hccl: npu_models.py RANK RANKS."""
import json
import sys

import torch
import transformers

import npu_batch_norm
import npu_collectives

STEPS = 20
SIZES = dict(vocab_size=211, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=8, max_position_embeddings=64, tie_word_embeddings=False)
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, decoder_sparse_step=1)
CONFIGS = {
    "Qwen3": lambda: transformers.Qwen3Config(**SIZES),
    "Qwen3, attention in plain operators": lambda: transformers.Qwen3Config(**SIZES, attn_implementation="eager"),
    "Qwen3 with experts": lambda: transformers.Qwen3MoeConfig(**SIZES, **EXPERTS),
}


def model_on(device, name):
    """The same weights on every device and rank: made on the CPU, then moved."""
    torch.manual_seed(7)
    return transformers.AutoModelForCausalLM.from_config(CONFIGS[name](), dtype=torch.float32).to(device)


def batches():
    """One batch a step, [4 rows, 24 tokens], two in turn so that there is something to learn; some labels are not
    trained."""
    generator = torch.Generator().manual_seed(3)
    two = [torch.randint(0, SIZES["vocab_size"], (4, 24), generator=generator) for _ in range(2)]
    for step in range(STEPS):
        ids = two[step % 2]
        yield ids, ids.masked_fill(torch.rand(ids.shape, generator=generator) < 0.2, -100)


def train(model, device, rank=0, ranks=1):
    """The loss of every step; a rank takes its share of the rows. The shares' losses add up to the whole's."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    losses = []
    for ids, labels in batches():
        trained = int((labels[:, 1:] != -100).sum())
        rows = slice(rank * len(ids) // ranks, (rank + 1) * len(ids) // ranks)
        logits = model(input_ids=ids[rows].to(device)).logits[:, :-1]
        target = labels[rows, 1:].to(device)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="sum") / trained
        (loss * ranks).backward()  # DistributedDataParallel averages over the ranks
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def generate(model, device):
    """Greedily, with the cache of keys and values; one prompt is shorter than the others."""
    prompts, mask = next(batches())[0][:, :6].to(device), torch.ones(4, 6, dtype=torch.int64, device=device)
    mask[1, :3] = 0
    tokens = model.eval().generate(prompts, attention_mask=mask, max_new_tokens=10, do_sample=False, pad_token_id=0)
    return tokens.cpu().tolist()


def run(name, device):
    model = model_on(device, name)
    losses = train(model, device)
    return losses, generate(model, device)


def rank_main(rank, ranks):
    import torch_npu  # noqa: F401  registers the device and the hccl backend
    torch.npu.set_device(rank)
    torch.distributed.init_process_group("hccl", rank=rank, world_size=ranks)
    model = torch.nn.parallel.DistributedDataParallel(model_on(f"npu:{rank}", "Qwen3"), device_ids=[rank])
    total = torch.tensor(train(model, f"npu:{rank}", rank, ranks), device=f"npu:{rank}")
    torch.distributed.all_reduce(total)
    collectives = npu_collectives.check(rank, f"npu:{rank}")
    batch_norms = npu_batch_norm.check(rank, f"npu:{rank}")
    total = total.tolist()  # waits: a rank that leaves with work in flight is a dead peer to the other
    torch.distributed.destroy_process_group()
    if rank == 0:
        print("RESULT " + json.dumps({"losses": total, "collectives": collectives, "batch_norms": batch_norms}))


if __name__ == "__main__":
    rank_main(int(sys.argv[1]), int(sys.argv[2]))
