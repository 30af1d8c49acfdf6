#!/usr/bin/env python3
"""Device npu as any user sees it: transformers and torch_npu train tiny models, nothing of ours is imported.

The loss curve on npu:0 is that of the CPU, and the trained model generates the same tokens. So is the curve of two
ranks under DistributedDataParallel over hccl, and their collectives and SyncBatchNorm give what they should. Run by tests/judges/npu_run,
which puts the twin's libraries and the torch_npu wheel in reach.
"""
import json
import os
import socket
import subprocess
import sys

import torch
import transformers

import npu_batch_norm
import npu_collectives

STEPS = 20
LIMIT = 1e-4
SIZES = dict(vocab_size=211, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=8, max_position_embeddings=64, tie_word_embeddings=False)
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, decoder_sparse_step=1)
CONFIGS = {
    "Qwen3": lambda: transformers.Qwen3Config(**SIZES),
    "Qwen3, attention in plain operators": lambda: transformers.Qwen3Config(**SIZES, attn_implementation="eager"),
    "Qwen3 with experts": lambda: transformers.Qwen3MoeConfig(**SIZES, **EXPERTS),
}


def model_on(device, name):
    """The same weights on every device and rank: created on the CPU, then moved."""
    torch.manual_seed(7)
    return transformers.AutoModelForCausalLM.from_config(CONFIGS[name](), dtype=torch.float32).to(device)


def batches():
    """One batch per step, [4 rows, 24 tokens], alternating between two so that there is something to learn; some labels
    are not trained."""
    generator = torch.Generator().manual_seed(3)
    two = [torch.randint(0, SIZES["vocab_size"], (4, 24), generator=generator) for _ in range(2)]
    for step in range(STEPS):
        ids = two[step % 2]
        yield ids, ids.masked_fill(torch.rand(ids.shape, generator=generator) < 0.2, -100)


def train(model, device, rank=0, ranks=1):
    """The loss of every step; a rank takes its share of the rows. The ranks' losses add up to the total."""
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
    """Greedily, with the key-value cache; one prompt is shorter than the others."""
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


def train_on_ranks(ranks):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    # The wheel's task queue in its other mode, which the single process above does not use.
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TASK_QUEUE_ENABLE": "2"}
    processes = [subprocess.Popen([sys.executable, "-W", "ignore", __file__, "--rank", str(rank), str(ranks)],
                                  env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                 for rank in range(ranks)]
    outputs = [process.communicate(timeout=800)[0] for process in processes]
    for rank, (process, output) in enumerate(zip(processes, outputs)):
        if process.returncode != 0:
            raise SystemExit(f"FAILED: rank {rank} ended with status {process.returncode}\n{output[-4000:]}")
    line = next(line for line in outputs[0].splitlines() if line.startswith("RESULT "))
    return json.loads(line.removeprefix("RESULT "))


def compare(what, losses, wanted):
    error = max(abs(a - b) / abs(b) for a, b in zip(losses, wanted))
    learns = wanted[-1] < 0.8 * wanted[0]  # equal curves of a model that learns nothing would prove little
    good = len(losses) == len(wanted) == STEPS and learns and error <= LIMIT
    print(f"{'ok' if good else 'FAILED'}: {what}: {len(losses)} losses from {losses[0]:.5f} to {losses[-1]:.5f}, "
          f"worst relative difference to the CPU {error:.1e} (at most {LIMIT:.0e})")
    return good


def main():
    if sys.argv[1:2] == ["--rank"]:
        return rank_main(int(sys.argv[2]), int(sys.argv[3]))
    wanted = {name: run(name, "cpu") for name in CONFIGS}
    import torch_npu  # noqa: F401  after the CPU's runs: it must not affect the reference
    good = True
    for name, (losses, tokens) in wanted.items():
        found_losses, found_tokens = run(name, "npu:0")
        good &= compare(f"{name} on npu:0", found_losses, losses)
        if found_tokens != tokens:
            good = False
            print(f"FAILED: {name} on npu:0 generates {found_tokens}; wanted {tokens}")
    ranks = train_on_ranks(2)
    good &= compare("Qwen3 on 2 ranks, DistributedDataParallel over hccl", ranks["losses"], wanted["Qwen3"][0])
    print(f"ok: {ranks['collectives']} collectives and {ranks['batch_norms']} values of SyncBatchNorm on 2 ranks")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
