#!/usr/bin/env python3
"""Device npu as a stranger uses it: transformers and torch_npu train a tiny Qwen3, nothing of ours is imported.

The loss curve on npu:0 is that of the CPU; so is that of two ranks under DistributedDataParallel over hccl. Run by
tests/judges/npu_run, which puts the twin's libraries and the torch_npu wheel in reach.
"""
import json
import os
import subprocess
import sys

import torch
import transformers

STEPS = 20
LIMIT = 1e-4
SIZES = dict(vocab_size=211, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=8, max_position_embeddings=64, tie_word_embeddings=False)


def model_on(device):
    """The same weights on every device and rank: made on the CPU, then moved."""
    torch.manual_seed(7)
    config = transformers.Qwen3Config(**SIZES, attn_implementation="eager")
    return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).to(device)


def batches():
    """One batch a step, [4 rows, 24 tokens], two in turn so that there is something to learn; some labels are not
    trained."""
    generator = torch.Generator().manual_seed(3)
    two = [torch.randint(0, SIZES["vocab_size"], (4, 24), generator=generator) for _ in range(2)]
    for step in range(STEPS):
        ids = two[step % 2]
        yield ids, ids.masked_fill(torch.rand(ids.shape, generator=generator) < 0.2, -100)


def train(device, rank=0, ranks=1, wrap=lambda model: model):
    """The loss of every step; a rank takes its share of the rows. Losses of equal shares average to the whole's."""
    model = wrap(model_on(device))
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


def rank_main(rank, ranks):
    import torch_npu  # noqa: F401  registers the device and the hccl backend
    torch.npu.set_device(rank)
    torch.distributed.init_process_group("hccl", rank=rank, world_size=ranks)
    losses = train(f"npu:{rank}", rank, ranks,
                   lambda model: torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank]))
    total = torch.tensor(losses, device=f"npu:{rank}")
    torch.distributed.all_reduce(total)
    total = total.tolist()  # waits: a rank that leaves with work in flight is a dead peer to the other
    torch.distributed.destroy_process_group()
    if rank == 0:
        print("LOSSES " + json.dumps(total))


def train_on_ranks(ranks):
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29571"}
    processes = [subprocess.Popen([sys.executable, "-W", "ignore", __file__, "--rank", str(rank), str(ranks)],
                                  env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                 for rank in range(ranks)]
    outputs = [process.communicate(timeout=500)[0] for process in processes]
    for rank, (process, output) in enumerate(zip(processes, outputs)):
        if process.returncode != 0:
            raise SystemExit(f"FAILED: rank {rank} ended with status {process.returncode}\n{output[-4000:]}")
    line = next(line for line in outputs[0].splitlines() if line.startswith("LOSSES "))
    return json.loads(line.removeprefix("LOSSES "))


def compare(name, losses, wanted):
    error = max(abs(a - b) / abs(b) for a, b in zip(losses, wanted))
    bad = len(losses) != len(wanted) or not error <= LIMIT
    print(f"{'FAILED' if bad else 'ok'}: {name}: {len(losses)} losses from {losses[0]:.5f} to {losses[-1]:.5f}, "
          f"worst relative difference to the CPU {error:.1e} (at most {LIMIT:.0e})")
    return bad


def main():
    if sys.argv[1:2] == ["--rank"]:
        return rank_main(int(sys.argv[2]), int(sys.argv[3]))
    wanted = train("cpu")
    import torch_npu  # noqa: F401  after the CPU's run: nothing of it may change what is compared with
    bad = compare("Qwen3 on npu:0", train("npu:0"), wanted)
    if not wanted[-1] < 0.8 * wanted[0]:
        bad = print(f"FAILED: the model learns nothing on the CPU ({wanted[0]:.3f} to {wanted[-1]:.3f})") or True
    bad |= compare("Qwen3 on 2 ranks, DistributedDataParallel over hccl", train_on_ranks(2), wanted)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
