"""Optimizer states of tiny Megatron checkpoints, written by torch alone as megatron-core lays them out: numbered tensors or
flat buffers in format `torch`, whole tensors or buckets of ranks in `torch_dist`. megatron_optimizer_files.py has
megatron-core write the same."""
import torch
import torch.distributed.checkpoint as dcp

import megatron_files

STATES = {"param": "master", "exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq"}  # theirs to ours
STEP, ALIGNED = 3, 64
BUFFERS = ("_extra_state", "expert_bias")


def state_tensors(hf):
    """By Megatron's state, tensors under the names of Hugging Face: masters that round to the weights, and moments."""
    torch.manual_seed(6)
    found = {state: {} for state in STATES}
    for name, weight in hf.items():
        noise = torch.rand(weight.shape) * 2.0 ** -10
        found["param"][name] = weight.float() * (1 + noise)
        found["exp_avg"][name] = torch.randn(weight.shape)
        found["exp_avg_sq"][name] = torch.rand(weight.shape)
    return found


def named(chunk):
    return [(name, tensor) for name, tensor in chunk.items() if not name.endswith(BUFFERS)]


def members(chunks, experts):
    """Positions in the lists of parameters of the dense optimizer, or of that of experts."""
    return [(c, i) for c, chunk in enumerate(chunks) for i, (name, _) in enumerate(named(chunk))
            if (".mlp.experts." in name) == experts]


def plain_optimizer(chunks, states, where, expert):
    """Torch's Adam inside Megatron's, with its parameters by number, matrices before vectors."""
    parameters = [named(chunk) for chunk in chunks]
    is_vector = lambda c, i: parameters[c][i][1].dim() == 1 or parameters[c][i][0].endswith(".bias")
    groups, masters, state, number = [], [], {}, 0
    for vectors in (False, True):
        some = [(c, i) for c, i in where if is_vector(c, i) == vectors]
        groups.append(dict(params=list(range(number, number + len(some))), lr=1e-3, wd_mult=0.0 if vectors else 1.0,
                           lr_mult=1.0, is_expert_parallel=expert, is_decoupled_lr=False))
        masters.append([named(states["param"][c])[i][1] for c, i in some])
        for c, i in some:
            state[number] = {kind: named(states[kind][c])[i][1] for kind in ("exp_avg", "exp_avg_sq")}
            state[number]["step"] = torch.tensor(float(STEP))
            number += 1
    return dict(optimizer=dict(state=state, param_groups=groups), fp32_from_fp16_params=masters)


def buckets(tensors, bucket_size):
    """Flat buffers of some parameters in reverse, each parameter at a multiple of 64, cut once they are large enough."""
    found, flat = [], []
    size = 0
    for tensor in reversed(tensors):
        gap = -size % ALIGNED
        flat += [torch.full((gap,), 9.0), tensor.reshape(-1).float()]
        size += gap + tensor.numel()
        if size >= bucket_size:
            found.append(torch.cat(flat))
            flat, size = [], 0
    return found + ([torch.cat(flat)] if flat else [])


def flat_buffers(states, where, chunks, bucket_size):
    """By chunk, by state: its buckets."""
    found = {}
    for c in range(len(chunks)):
        some = [i for chunk, i in where if chunk == c]
        if some:
            found[c] = {state: buckets([named(states[state][c])[i][1] for i in some], bucket_size) for state in STATES}
    return found


def distributed_file(states, where, chunks, bucket_size):
    found = {"buckets_coalesced": True}
    for c, by_state in flat_buffers(states, where, chunks, bucket_size).items():
        whole = {state: torch.cat(parts) for state, parts in by_state.items()}
        found[c] = {(torch.bfloat16, torch.float32): dict(whole, numel_unpadded=whole["param"].numel())}
    return found


def rank_chunks(config, hf, rank, tp, pp, vpp, ep, style, divisor):
    per_chunk = megatron_files.LAYERS // (pp * vpp)
    return [megatron_files.chunk_tensors(config, hf, rank, v, per_chunk, tp, pp, vpp, ep, style, divisor) for v in range(vpp)]


def add_to_torch(directory, config, states, distributed, tp=1, pp=1, vpp=1, ep=1, style="local", divisor=8,
                 bucket_size=3000):
    """Adds an optimizer to what megatron_files.write_torch has written with this layout."""
    for file in sorted(directory.glob("iter_*/mp_rank_*/model_optim_rng.pt")):
        numbers = [int(part) for part in file.parent.name.split("_")[2:]]
        rank = (numbers[0], numbers[1] if pp > 1 else 0, numbers[-1] if ep > 1 else 0)
        state = torch.load(file, weights_only=False)
        chunks = [state["model"]] if vpp == 1 else [state[f"model{v}"] for v in range(vpp)]
        locals_ = {kind: rank_chunks(config, tensors, rank, tp, pp, vpp, ep, style, divisor) for kind, tensors in states.items()}
        dense, experts = members(chunks, False), members(chunks, True)
        wheres = [dense, experts] if ep > 1 else [sorted(dense + experts)]
        if distributed:
            files = [distributed_file(locals_, where, chunks, bucket_size) for where in wheres]
            torch.save(files if len(files) > 1 else files[0], file.parent / "distrib_optim.pt")
            parts = [dict(optimizer=dict(param_groups=[dict(lr=1e-3, step=STEP)])) for _ in wheres]
        else:
            parts = [plain_optimizer(chunks, locals_, where, i == 1) for i, where in enumerate(wheres)]
        torch.save(dict(state, optimizer=parts if len(parts) > 1 else parts[0]), file)


def add_to_dist(directory, config, hf, states, tp=None, divisor=8, bucket_size=3000):
    """Rewrites what megatron_files.write_dist has written, with whole states, or with buckets of `tp` ranks."""
    iteration = directory / "iter_0000003"
    tensors = megatron_files.stacked(config, hf, divisor * (tp or 1))
    if tp is None:
        for kind, values in states.items():
            tensors.update({f"optimizer.state.{kind}.{name}": tensor.float()
                            for name, tensor in megatron_files.stacked(config, values, divisor).items()})
    for t in range(tp or 0):
        rank = (t, 0, 0)
        chunks = rank_chunks(config, hf, rank, tp, 1, 1, 1, "local", divisor)
        locals_ = {kind: rank_chunks(config, values, rank, tp, 1, 1, 1, "local", divisor) for kind, values in states.items()}
        for kind, parts in flat_buffers(locals_, sorted(members(chunks, False) + members(chunks, True)), chunks, bucket_size)[0].items():
            tensors.update({f"optimizer.distributed.dp_group_idx_{t}.gbuf_idx_0.dtype_(torch.bfloat16, torch.float32)"
                            f".bucket_idx_{j}.{kind}": part for j, part in enumerate(parts)})
    for file in [*iteration.glob("*.distcp"), iteration / ".metadata"]:
        file.unlink()
    dcp.save(tensors, checkpoint_id=str(iteration), no_dist=True)
    torch.save(dict(args=megatron_files.arguments(config, tp or 1, 1, 1, 1), checkpoint_version=3.0, iteration=3,
                    optimizer=dict(optimizer=dict(param_groups=[dict(step=STEP)]))), iteration / "common.pt")
