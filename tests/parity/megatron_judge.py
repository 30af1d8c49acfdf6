"""megatron-core itself saves tiny models, on the CPU over gloo, in both formats and in several layouts; `trireme convert`
makes Hugging Face directories of them, and transformers computes from these the logits that megatron-core computed. By
hand, for it needs megatron-core (0.16) beside transformers:

    python tests/parity/megatron_judge.py --out DIR [--trireme build/trireme]
"""
import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys

import torch
import torch.multiprocessing as multiprocessing

LAYERS, HIDDEN, FFN, HEADS, GROUPS, VOCABULARY, PADDED = 4, 64, 96, 4, 2, 120, 128
# Name: (model, tp, pp, ep).
CASES = {"llama": ("llama", 1, 1, 1), "llama_tp2": ("llama", 2, 1, 1), "llama_pp2": ("llama", 1, 2, 1), "qwen3": ("qwen3", 1, 1, 1),
         "qwen3_moe": ("qwen3_moe", 1, 1, 1), "qwen3_moe_ep2": ("qwen3_moe", 1, 1, 2)}
TOLERANCE = 2e-5  # of logits in fp32


def hf_config(model):
    config = dict(model_type=model, hidden_size=HIDDEN, intermediate_size=FFN, num_attention_heads=HEADS,
                  num_key_value_heads=GROUPS, head_dim=HIDDEN // HEADS, num_hidden_layers=LAYERS, vocab_size=VOCABULARY,
                  max_position_embeddings=64, rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=False,
                  hidden_act="silu", torch_dtype="float32", attention_bias=False)
    if model == "qwen3_moe":
        config.update(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, decoder_sparse_step=1,
                      mlp_only_layers=[], norm_topk_prob=True)
    names = {"llama": "LlamaForCausalLM", "qwen3": "Qwen3ForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM"}
    return dict(config, architectures=[names[model]])


def run_on_cpu():
    """megatron-core asks for CUDA where a CPU would do."""
    torch.cuda.current_device = lambda: torch.device("cpu")
    torch.cuda.synchronize = lambda *_: None
    from megatron.core.tensor_parallel import random as megatron_random
    megatron_random.CudaRNGStatesTracker.fork = lambda self, *_, **__: contextlib.nullcontext()
    from megatron.core.transformer.moe import moe_utils
    moe_utils.te_general_gemm = None  # which the router asks for where Transformer Engine is not installed


def build(model, tp, pp, ep, rank):
    from megatron.core import parallel_state
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.transformer import TransformerConfig
    experts = dict(num_moe_experts=4, moe_router_topk=2, moe_ffn_hidden_size=32, moe_router_pre_softmax=False,
                   moe_token_dispatcher_type="allgather", add_bias_linear=False) if model == "qwen3_moe" else {}
    config = TransformerConfig(
        num_layers=LAYERS, hidden_size=HIDDEN, ffn_hidden_size=FFN, num_attention_heads=HEADS, num_query_groups=GROUPS,
        kv_channels=HIDDEN // HEADS, normalization="RMSNorm", layernorm_epsilon=1e-5, gated_linear_unit=True,
        activation_func=torch.nn.functional.silu, use_cpu_initialization=True, hidden_dropout=0, attention_dropout=0,
        bias_activation_fusion=False, bias_dropout_fusion=False, apply_rope_fusion=False, masked_softmax_fusion=False,
        gradient_accumulation_fusion=False, qk_layernorm=model != "llama", tensor_model_parallel_size=tp,
        pipeline_model_parallel_size=pp, expert_model_parallel_size=ep, pipeline_dtype=torch.float32, init_method_std=0.2,
        **{"add_bias_linear": False, **experts})
    spec = get_gpt_layer_local_spec(num_experts=experts.get("num_moe_experts"), moe_grouped_gemm=False,
                                    qk_layernorm=model != "llama", normalization="RMSNorm")
    torch.manual_seed(11)
    net = GPTModel(config=config, transformer_layer_spec=spec, vocab_size=PADDED, max_sequence_length=64,
                   pre_process=parallel_state.is_pipeline_first_stage(), post_process=parallel_state.is_pipeline_last_stage(),
                   share_embeddings_and_output_weights=False, position_embedding_type="rope", rotary_base=10000)
    for name, parameter in net.named_parameters():  # norms that are not all ones
        if "norm" in name:
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    return net


def tokens():
    return torch.randint(0, VOCABULARY, (2, 12), generator=torch.Generator().manual_seed(3))


def logits_of(net):
    ids = tokens()
    positions = torch.arange(ids.shape[1]).expand_as(ids)
    mask = torch.ones(1, 1, ids.shape[1], ids.shape[1]).tril() < 0.5
    with torch.no_grad():
        return net(ids, positions, mask)


def save(rank, world, out, name):
    """One rank's part of both formats; where one rank has the model, its logits, too."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(29500 + list(CASES).index(name)), RANK=str(rank), WORLD_SIZE=str(world))
    run_on_cpu()
    torch.distributed.init_process_group("gloo", rank=rank, world_size=world)
    from megatron.core import dist_checkpointing, parallel_state
    from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
    model, tp, pp, ep = CASES[name]
    parallel_state.initialize_model_parallel(tp, pp, expert_model_parallel_size=ep)
    with contextlib.suppress(Exception):
        model_parallel_cuda_manual_seed(11)
    net = build(model, tp, pp, ep, rank)
    dist, ranks = out / f"{name}_dist", out / f"{name}_torch"
    arguments = argparse.Namespace(
        num_layers=LAYERS, hidden_size=HIDDEN, num_attention_heads=HEADS, num_query_groups=GROUPS, group_query_attention=True,
        tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp, expert_model_parallel_size=ep, swiglu=True,
        num_experts=4 if model == "qwen3_moe" else None, params_dtype=torch.float32)
    common = dict(args=arguments, checkpoint_version=3.0, iteration=1)
    (dist / "iter_0000001").mkdir(parents=True, exist_ok=True)
    torch.distributed.barrier()
    dist_checkpointing.save({**net.sharded_state_dict(), **common}, str(dist / "iter_0000001"))
    t, p = parallel_state.get_tensor_model_parallel_rank(), parallel_state.get_pipeline_model_parallel_rank()
    folder = f"mp_rank_{t:02}" + (f"_{p:03}" if pp > 1 else "")
    if ep > 1:
        folder += f"_{parallel_state.get_expert_model_parallel_rank():03}"
    (ranks / "iter_0000001" / folder).mkdir(parents=True)
    torch.save(dict(common, model=net.state_dict_for_save_checkpoint()), ranks / "iter_0000001" / folder / "model_optim_rng.pt")
    if pp == 1:
        logits = logits_of(net)
        if tp > 1:
            parts = [torch.empty_like(logits) for _ in range(tp)]
            torch.distributed.all_gather(parts, logits.contiguous())
            logits = torch.cat(parts, dim=-1)
        if rank == 0:
            torch.save(logits, out / f"{name}.logits")
    if rank == 0:
        for directory in (dist, ranks):
            (directory / "latest_checkpointed_iteration.txt").write_text("1")
            (directory / "config.json").write_text(json.dumps(hf_config(model)))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def compare(out, name, trireme):
    from safetensors.torch import load_file
    import transformers
    found = {}
    for kind in ("dist", "torch"):
        target = out / f"{name}_{kind}_hf"
        subprocess.run([*trireme, "convert", "--from", str(out / f"{name}_{kind}"), "--to", str(target)], check=True)
        found[kind] = load_file(target / "model.safetensors")
    equal = found["dist"].keys() == found["torch"].keys() and all(torch.equal(found["dist"][key], found["torch"][key]) for key in found["dist"])
    line = f"{name}: {len(found['dist'])} tensors, formats {'equal' if equal else 'DIFFER'}"
    wanted = out / f"{name}.logits"
    good = equal
    if wanted.exists():
        net = transformers.AutoModelForCausalLM.from_pretrained(out / f"{name}_dist_hf", torch_dtype=torch.float32, attn_implementation="eager")
        with torch.no_grad():
            difference = (net(tokens()).logits - torch.load(wanted)[..., :VOCABULARY]).abs().max().item()
        line += f", logits differ by at most {difference:.2e}"
        good = good and difference < TOLERANCE
    print(line, flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--trireme", default="build/trireme")
    parser.add_argument("--only", nargs="*", default=list(CASES))
    options = parser.parse_args()
    good = True
    for name in options.only:
        world = max(CASES[name][1:])
        multiprocessing.spawn(save, (world, options.out, name), nprocs=world)
        good = compare(options.out, name, options.trireme.split()) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
