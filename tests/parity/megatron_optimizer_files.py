"""megatron-core trains tiny models for two steps with its own optimizer, on the CPU over gloo, saves them in every form that
its version can write, and takes a third step: what a run that goes on must find and must do. One process per rank."""
import argparse
import contextlib
import json
import os
import pathlib
import sys

import numpy
import torch
import torch.multiprocessing as multiprocessing

LAYERS, HIDDEN, FFN, HEADS, GROUPS, VOCABULARY, EXPERT_FFN = 2, 32, 48, 4, 2, 64, 16
ROWS, LENGTH, STEPS = 2, 13, 2
RATE, DECAY, CLIP, BETAS, EPSILON = 1e-2, 0.1, 1.0, (0.9, 0.95), 1e-8
# Name: (model, tp, ep, ranks, dtype).
CASES = {"llama": ("llama", 1, 1, 1, "fp32"), "llama_bf16": ("llama", 1, 1, 1, "bf16"),
         "llama_tp2": ("llama", 2, 1, 2, "fp32"), "llama_tp2_bf16": ("llama", 2, 1, 2, "bf16"),
         "llama_dp2_bf16": ("llama", 1, 1, 2, "bf16"), "qwen3_moe_ep2": ("qwen3_moe", 1, 2, 2, "fp32"),
         "qwen3_moe_ep2_bf16": ("qwen3_moe", 1, 2, 2, "bf16")}
TORCH, DIST = "torch", "torch_dist"


def hf_config(model, dtype):
    config = dict(model_type=model, hidden_size=HIDDEN, intermediate_size=FFN, num_attention_heads=HEADS,
                  num_key_value_heads=GROUPS, head_dim=HIDDEN // HEADS, num_hidden_layers=LAYERS, vocab_size=VOCABULARY,
                  max_position_embeddings=64, rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=False,
                  hidden_act="silu", torch_dtype={"fp32": "float32", "bf16": "bfloat16"}[dtype], attention_bias=False)
    if model == "qwen3_moe":
        config.update(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=EXPERT_FFN, decoder_sparse_step=1,
                      mlp_only_layers=[], norm_topk_prob=True, router_aux_loss_coef=0.0)
    names = {"llama": "LlamaForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM"}
    return dict(config, architectures=[names[model]])


def batches():
    """Tokens of every step, one row per sequence."""
    return torch.randint(0, VOCABULARY, (STEPS + 1, ROWS, LENGTH), generator=torch.Generator().manual_seed(3))


class OnCpu(torch.overrides.TorchFunctionMode):
    """megatron-core asks for CUDA by name where a CPU would do."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if "cuda" in str(kwargs.get("device", "")):
            kwargs["device"] = "cpu"
        if function is torch.Tensor.cuda:
            return args[0]
        found = function(*args, **kwargs)
        if function is torch.Tensor.type and isinstance(found, str):
            return found.replace("torch.", "torch.cuda.", 1)
        return found


def run_on_cpu():
    numpy.product = numpy.prod  # which older megatron-core asks for
    torch.cuda.current_device = lambda: torch.device("cpu")
    torch.cuda.synchronize = lambda *_: None
    from megatron.core.tensor_parallel import random as megatron_random
    megatron_random.CudaRNGStatesTracker.fork = lambda self, *_, **__: contextlib.nullcontext()
    from megatron.core.transformer.moe import moe_utils
    moe_utils.te_general_gemm = None
    from megatron.core.optimizer import distrib_optimizer
    if hasattr(distrib_optimizer, "quantize_param_shard"):
        distrib_optimizer.quantize_param_shard = lambda *_, **__: None
    OnCpu().__enter__()


def build(model, tp, ep, dtype):
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.transformer import TransformerConfig
    experts = dict(num_moe_experts=4, moe_router_topk=2, moe_ffn_hidden_size=EXPERT_FFN, moe_router_pre_softmax=False,
                   moe_token_dispatcher_type="allgather", moe_router_load_balancing_type="none") if model == "qwen3_moe" else {}
    bf16 = dtype == "bf16"
    config = TransformerConfig(
        num_layers=LAYERS, hidden_size=HIDDEN, ffn_hidden_size=FFN, num_attention_heads=HEADS, num_query_groups=GROUPS,
        kv_channels=HIDDEN // HEADS, normalization="RMSNorm", layernorm_epsilon=1e-5, gated_linear_unit=True,
        activation_func=torch.nn.functional.silu, use_cpu_initialization=True, hidden_dropout=0, attention_dropout=0,
        bias_activation_fusion=False, bias_dropout_fusion=False, apply_rope_fusion=False, masked_softmax_fusion=False,
        gradient_accumulation_fusion=False, qk_layernorm=model != "llama", tensor_model_parallel_size=tp,
        expert_model_parallel_size=ep, init_method_std=0.2, add_bias_linear=False, bf16=bf16,
        params_dtype=torch.bfloat16 if bf16 else torch.float32, **experts)
    spec = get_gpt_layer_local_spec(num_experts=experts.get("num_moe_experts"), moe_grouped_gemm=False,
                                    qk_layernorm=model != "llama", normalization="RMSNorm")
    torch.manual_seed(11)  # norms stay all ones, of which bf16 cannot tell one from another
    return GPTModel(config=config, transformer_layer_spec=spec, vocab_size=VOCABULARY, max_sequence_length=64,
                    share_embeddings_and_output_weights=False, position_embedding_type="rope", rotary_base=10000)


def optimizer_of(net, dtype, distributed):
    """The net as Megatron wraps it, and its optimizer."""
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    wrapped = DistributedDataParallel(net.config, DistributedDataParallelConfig(
        grad_reduce_in_fp32=True, use_distributed_optimizer=distributed, overlap_grad_reduce=False), net)
    optimizer = get_megatron_optimizer(OptimizerConfig(
        optimizer="adam", lr=RATE, min_lr=RATE, weight_decay=DECAY, bf16=dtype == "bf16", clip_grad=CLIP, adam_beta1=BETAS[0],
        adam_beta2=BETAS[1], adam_eps=EPSILON, use_distributed_optimizer=distributed,
        params_dtype=torch.bfloat16 if dtype == "bf16" else torch.float32), [wrapped])
    for part in parts_of(optimizer):
        for group in part.optimizer.param_groups:
            group["weight_decay"] = DECAY * group["wd_mult"]  # as OptimizerParamScheduler does at each step
    return wrapped, optimizer


def train_step(wrapped, optimizer, step, data_rank, data_ranks):
    rows = batches()[step].chunk(data_ranks)[data_rank]
    ids, labels = rows[:, :-1], rows[:, 1:]
    positions = torch.arange(ids.shape[1]).expand_as(ids)
    mask = torch.ones(1, 1, ids.shape[1], ids.shape[1]).tril() < 0.5
    wrapped.zero_grad_buffer()
    loss = wrapped(ids, positions, mask, labels=labels).float().mean()
    loss.backward()
    wrapped.finish_grad_sync()
    optimizer.step()
    return loss.item()


def parts_of(optimizer):
    return getattr(optimizer, "chained_optimizers", [optimizer])


def states_of(optimizer, parameter):
    """Master and moments of a parameter, as the optimizer itself finds them; those of other data-parallel ranks, too."""
    for part in parts_of(optimizer):
        if hasattr(part, "model_param_gbuf_map"):
            if parameter not in part.model_param_group_index_map and not any(
                    parameter in buffer.param_index_map for buffer in part.buffers):
                continue
            found = {name: torch.zeros(parameter.numel()) for name in ("param", "exp_avg", "exp_avg_sq")}
            if parameter in part.model_param_gbuf_map:
                own = part._get_model_param_range_map(parameter)["param"]
                values = part._get_main_param_and_optimizer_states(parameter)
                for name, tensor in found.items():
                    tensor[own.start:own.end] = values[name].detach()
            for tensor in found.values():
                torch.distributed.all_reduce(tensor, group=part.data_parallel_group)
            return {name: tensor.view(parameter.shape) for name, tensor in found.items()}
        main = getattr(parameter, "main_param", None)
        main = parameter if main is None else main
        if main in part.optimizer.state:
            state = part.optimizer.state[main]
            return {"param": main.detach().clone(), "exp_avg": state["exp_avg"], "exp_avg_sq": state["exp_avg_sq"]}
    raise KeyError(parameter.shape)


class Saver:
    """One rank's part of the checkpoints of one case."""

    def __init__(self, out, name, rank):
        from megatron.core import parallel_state
        self.out, self.name = out, name
        self.model, self.tp, self.ep, self.ranks, self.dtype = CASES[name]
        self.rank = rank
        self.first_data_rank = parallel_state.get_data_parallel_rank() == 0
        folder = f"mp_rank_{parallel_state.get_tensor_model_parallel_rank():02}"
        self.folder = folder + (f"_{parallel_state.get_expert_model_parallel_rank():03}" if self.ep > 1 else "")
        self.writes = self.ep > 1 or self.first_data_rank

    def common(self, step):
        return dict(args=argparse.Namespace(
            num_layers=LAYERS, hidden_size=HIDDEN, num_attention_heads=HEADS, num_query_groups=GROUPS,
            group_query_attention=True, tensor_model_parallel_size=self.tp, pipeline_model_parallel_size=1,
            expert_model_parallel_size=self.ep, swiglu=True, num_experts=4 if self.model == "qwen3_moe" else None,
            optimizer="adam"), checkpoint_version=3.0, iteration=step)

    def begin(self, kind, step):
        directory = self.out / f"{self.name}_{kind}"
        if self.rank == 0:
            (directory / f"iter_{step:07}").mkdir(parents=True)
            (directory / "config.json").write_text(json.dumps(hf_config(self.model, self.dtype)))
            (directory / "latest_checkpointed_iteration.txt").write_text(str(step))
        torch.distributed.barrier()
        return directory / f"iter_{step:07}"

    def torch_format(self, kind, step, net, optimizer=None, values=None):
        """`values`: of another kind than the weights, in their place and under their names."""
        folder = self.begin(kind, step) / self.folder
        model = net.state_dict_for_save_checkpoint()
        if values is not None:
            model.update(values)
        state = dict(self.common(step), model=model)
        if optimizer is not None:
            state["optimizer"] = optimizer.state_dict()
        if self.writes:
            folder.mkdir(exist_ok=True)
            torch.save(state, folder / "model_optim_rng.pt")
        torch.distributed.barrier()
        if optimizer is not None and hasattr(parts_of(optimizer)[0], "model_param_gbuf_map"):
            optimizer.save_parameter_state(str(folder / "distrib_optim.pt"))
        torch.distributed.barrier()

    def dist_format(self, kind, step, net, optimizer, sharding):
        from megatron.core import dist_checkpointing
        import inspect
        directory = self.begin(kind, step)
        model = net.sharded_state_dict()
        new = "metadata" in inspect.signature(parts_of(optimizer)[0].sharded_state_dict).parameters
        # `sharding`: of a distributed optimizer's states; None where there is none.
        if new:
            metadata = {"chained_optim_avoid_prefix": True}
            if sharding is not None:
                metadata["distrib_optim_sharding_type"] = sharding
            states = optimizer.sharded_state_dict(model, metadata=metadata)
        elif sharding is not None:
            states = optimizer.sharded_state_dict(model, sharding_type=sharding)
        else:
            states = optimizer.sharded_state_dict(model)
        dist_checkpointing.save({**model, "optimizer": states, **self.common(step)}, str(directory))
        torch.distributed.barrier()


def version():
    import megatron.core
    return tuple(int(part) for part in megatron.core.__version__.split(".")[:2])


def shardings():
    """Those that this megatron-core writes: as they are called, and by which name its option goes."""
    return ["dp_reshardable", "fully_reshardable"] if version() >= (0, 14) else ["fully_sharded_model_space"]


def train(rank, ranks, out, name):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks))
    torch.set_num_threads(1)
    run_on_cpu()
    torch.distributed.init_process_group("gloo", f"file://{(out / name).resolve()}.meeting", rank=rank, world_size=ranks)
    from megatron.core import parallel_state
    model, tp, ep, _, dtype = CASES[name]
    parallel_state.initialize_model_parallel(tp, 1, expert_model_parallel_size=ep)
    for distributed in (False, True):
        train_one(rank, ranks, out, name, distributed)
    torch.distributed.destroy_process_group()


def train_one(rank, ranks, out, name, distributed):
    from megatron.core import parallel_state
    model, tp, ep, _, dtype = CASES[name]
    net = build(model, tp, ep, dtype)
    if dtype == "bf16":
        net = net.bfloat16()
    saver = Saver(out, name, rank)
    wrapped, optimizer = optimizer_of(net, dtype, distributed)
    data_rank, data_ranks = parallel_state.get_data_parallel_rank(), parallel_state.get_data_parallel_world_size()
    losses = [train_step(wrapped, optimizer, step, data_rank, data_ranks) for step in range(STEPS)]
    way = "distributed" if distributed else "plain"
    for state in ("param", "exp_avg", "exp_avg_sq"):
        values = {key: states_of(optimizer, parameter)[state] for key, parameter in net.named_parameters()}
        saver.torch_format(f"{way}_{state}", STEPS, net, values=values)
    saver.torch_format(f"{way}_torch", STEPS, net, optimizer)
    for sharding in shardings() if distributed else [None]:
        saver.dist_format(f"{way}_{sharding}" if sharding else f"{way}_dist", STEPS, net, optimizer, sharding)
    losses.append(train_step(wrapped, optimizer, STEPS, data_rank, data_ranks))
    saver.torch_format(f"{way}_next", STEPS + 1, net)
    mean = torch.tensor(losses)
    torch.distributed.all_reduce(mean)
    if rank == 0:
        (out / f"{name}_{way}.losses").write_text(json.dumps((mean / ranks).tolist()))
    torch.distributed.barrier()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--only", nargs="*", default=list(CASES))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        ranks = CASES[name][3]
        multiprocessing.spawn(train, (ranks, options.out, name), nprocs=ranks)


if __name__ == "__main__":
    sys.exit(main())
