"""torch.distributed's collectives over the hccl backend on two ranks, against their definition. For npu_training_test,
whose ranks call check()."""
import torch
import torch.distributed as dist


def cases(rank, device):
    """Name, result, expected result. Rank r starts from r*10 + [0, 1, 2, 3]."""
    mine = [torch.arange(4.0) + 10 * r for r in range(2)]
    other = 1 - rank

    def start():
        return mine[rank].to(device)

    def empty(count=4):
        return torch.empty(count, device=device)

    for name, wanted in (("SUM", mine[0] + mine[1]), ("MAX", mine[1]), ("MIN", mine[0]), ("PRODUCT", mine[0] * mine[1]),
                         ("AVG", (mine[0] + mine[1]) / 2)):
        x = start()
        dist.all_reduce(x, op=getattr(dist.ReduceOp, name))
        yield f"all_reduce {name}", x, wanted
    x = start().bfloat16()
    dist.all_reduce(x)
    yield "all_reduce bfloat16", x, (mine[0] + mine[1]).bfloat16()
    x = start().long()
    dist.all_reduce(x, group=dist.new_group([0, 1]))
    yield "all_reduce int64 in a group", x, (mine[0] + mine[1]).long()
    x = start()
    dist.broadcast(x, 1)
    yield "broadcast", x, mine[1]
    x = empty(8)
    dist.all_gather_into_tensor(x, start())
    yield "all_gather_into_tensor", x, torch.cat(mine)
    x = empty(2)
    dist.reduce_scatter_tensor(x, start())
    yield "reduce_scatter_tensor", x, (mine[0] + mine[1])[2 * rank:2 * rank + 2]
    x = empty()
    dist.all_to_all_single(x, start())
    yield "all_to_all_single", x, torch.cat([part[2 * rank:2 * rank + 2] for part in mine])
    x = empty([3, 5][rank])  # rank 0 sends 1 and 3, rank 1 sends 2 and 2
    dist.all_to_all_single(x, start(), [[1, 2], [3, 2]][rank], [[1, 3], [2, 2]][rank])
    yield "all_to_all_single, uneven", x, torch.cat([[mine[0][:1], mine[1][:2]], [mine[0][1:], mine[1][2:]]][rank])
    x = empty()
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, start(), other), dist.P2POp(dist.irecv, x, other)]):
        work.wait()
    yield "batch_isend_irecv", x, mine[other]
    x = start()
    dist.send(x, 1) if rank == 0 else dist.recv(x, 0)
    yield "send and recv", x, mine[0]
    objects = [None, None]
    dist.all_gather_object(objects, {"rank": rank})
    yield "all_gather_object", torch.tensor([item["rank"] for item in objects]), torch.tensor([0, 1])
    dist.barrier()


def check(rank, device):
    """Returns the number of cases; exits at the first wrong one."""
    count = 0
    for name, found, wanted in cases(rank, device):
        count += 1
        if not torch.equal(found.cpu(), wanted):
            raise SystemExit(f"rank {rank}: {name} returned {found.tolist()}; wanted {wanted.tolist()}")
    return count
