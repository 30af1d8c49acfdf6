"""SyncBatchNorm over the hccl backend on two ranks that have unequally many rows, against a batch norm of all rows on the
CPU: values, gradients, running statistics, and what evaluation makes of them. For npu_training_test, whose ranks call
check()."""
import torch
import torch.distributed as dist

SHARES = (slice(0, 2), slice(2, 6))
LIMIT = 1e-5


def layer():
    torch.manual_seed(5)
    made = torch.nn.BatchNorm2d(3, momentum=0.3)
    with torch.no_grad():
        made.weight.uniform_(0.5, 2)
        made.bias.normal_()
    return made


def run(model, rows, factors):
    """Two training steps' worth of statistics; of the last one the gradients, too."""
    for x, factor in zip(rows, factors):
        x = x.clone().requires_grad_()
        model.zero_grad()
        y = model(x)
        (y * factor).sum().backward()
    model.eval()
    with torch.no_grad():
        evaluated = model(rows[0])
    return {"value": y, "gradient of x": x.grad, "gradient of weight": model.weight.grad,
            "gradient of bias": model.bias.grad, "running mean": model.running_mean, "running variance": model.running_var,
            "evaluation": evaluated}


def cases(rank, device, dtype):
    generator = torch.Generator().manual_seed(11)
    rows = [torch.randn(6, 3, 4, 5, generator=generator) * 2 + 1 for _ in range(2)]
    factors = [torch.randn(6, 3, 4, 5, generator=generator) for _ in range(2)]
    if dtype == torch.float16:
        rows, factors = [t.half().float() for t in rows], [t.half().float() for t in factors]
    wanted = run(layer(), rows, factors)
    mine = SHARES[rank]
    model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(layer()).to(device)
    found = run(model, [t[mine].to(device, dtype) for t in rows], [t[mine].to(device, dtype) for t in factors])
    for name in ("gradient of weight", "gradient of bias"):
        dist.all_reduce(found[name])  # each rank has its rows' part
    for name in ("value", "gradient of x", "evaluation"):
        wanted[name] = wanted[name][mine]
    for name, value in found.items():
        yield f"SyncBatchNorm in {dtype}: {name}", value.detach(), wanted[name].detach()


def check(rank, device):
    """The number of cases; stops the program at one that is wrong."""
    count = 0
    for dtype, limit in ((torch.float32, LIMIT), (torch.float16, 5e-3)):
        for name, found, wanted in cases(rank, device, dtype):
            count += 1
            error = (found.cpu().float() - wanted).abs().max() / wanted.abs().max()
            if not error <= limit:
                raise SystemExit(f"rank {rank}: {name}: relative error {error:.1e}; at most {limit:.0e} wanted")
    return count
