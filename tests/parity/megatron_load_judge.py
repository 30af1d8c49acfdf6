"""megatron-core loads, with its own strict loading, what `trireme convert --to-megatron` writes of a model of transformers, in
both formats and several layouts, on the CPU over gloo, and computes transformers' logits. Of latent attention and MTP, which
its local layers cannot run, the loaded tensors are compared. By hand, for it needs megatron-core (0.16) beside transformers:

    python tests/parity/megatron_load_judge.py --out DIR [--trireme build/trireme]
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

import megatron_files
import megatron_judge

# Name: (model, tp, pp, ep).
CASES = {"llama": ("llama", 1, 1, 1), "llama_tp2": ("llama", 2, 1, 1), "llama_pp2": ("llama", 1, 2, 1), "qwen3_tp2": ("qwen3", 2, 1, 1),
         "qwen3_moe": ("qwen3_moe", 1, 1, 1), "qwen3_moe_ep2": ("qwen3_moe", 1, 1, 2)}
TOLERANCE = 2e-5  # of logits in fp32


def write_model(directory, model):
    """A random model of transformers, its logits, and norms that are not all ones."""
    import transformers
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(megatron_judge.hf_config(model)))
    torch.manual_seed(5)
    net = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.from_pretrained(directory), dtype=torch.float32, attn_implementation="eager")
    for name, parameter in net.named_parameters():
        torch.nn.init.uniform_(parameter, 0.5, 1.5) if "norm" in name else torch.nn.init.normal_(parameter, std=0.2)
    net.save_pretrained(directory)
    with torch.no_grad():
        return net(megatron_judge.tokens()).logits


def convert(trireme, source, target, form, tp, pp, ep, padded):
    settings = dict(tensor=tp, pipeline=pp, expert=ep, expert_tensor=tp)
    words = [word for key, size in settings.items() for word in ("--set", f"parallel.{key}={size}")]
    subprocess.run([*trireme, "convert", "--from", str(source), "--to", str(target), "--to-megatron", form,
                    "--make-vocab-size-divisible-by", str(padded // tp), *words], check=True)


@contextlib.contextmanager
def megatron(rank, world, tp, pp, ep, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(world))
    megatron_judge.run_on_cpu()
    torch.distributed.init_process_group("gloo", rank=rank, world_size=world)
    from megatron.core import parallel_state
    from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
    parallel_state.initialize_model_parallel(tp, pp, expert_model_parallel_size=ep)
    with contextlib.suppress(Exception):
        model_parallel_cuda_manual_seed(11)
    yield
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def load(net, directory, form):
    """Strictly, as Megatron-LM does."""
    from megatron.core import dist_checkpointing, parallel_state
    iteration = directory / (directory / "latest_checkpointed_iteration.txt").read_text()
    if form == "torch_dist":
        state = dist_checkpointing.load({"model": net.sharded_state_dict()}, str(iteration), strict="raise_unexpected")["model"]
    else:
        folder = f"mp_rank_{parallel_state.get_tensor_model_parallel_rank():02}"
        if parallel_state.get_pipeline_model_parallel_world_size() > 1:
            folder += f"_{parallel_state.get_pipeline_model_parallel_rank():03}"
        if parallel_state.get_expert_model_parallel_world_size() > 1:
            folder += f"_{parallel_state.get_expert_model_parallel_rank():03}"
        with torch.serialization.safe_globals([argparse.Namespace]):
            state = torch.load(iteration / folder / "model_optim_rng.pt", weights_only=True)["model"]
    net.load_state_dict(state, strict=True)


def logits_of(net, rank, tp, pp):
    """Of the last stage, with all of the vocabulary."""
    if pp == 2 and rank == 0:
        torch.distributed.send(megatron_judge.logits_of(net).contiguous(), 1)
        return None
    if pp == 2:
        hidden = torch.empty(megatron_judge.tokens().shape[1], 2, megatron_judge.HIDDEN)
        torch.distributed.recv(hidden, 0)
        net.set_input_tensor(hidden)
    logits = megatron_judge.logits_of(net)
    if tp == 1:
        return logits
    parts = [torch.empty_like(logits) for _ in range(tp)]
    torch.distributed.all_gather(parts, logits.contiguous())
    return torch.cat(parts, dim=-1)


def check(rank, world, out, name, form):
    model, tp, pp, ep = CASES[name]
    with megatron(rank, world, tp, pp, ep, 29700 + 2 * list(CASES).index(name) + (form == "torch")):
        net = megatron_judge.build(model, tp, pp, ep, rank)
        load(net, out / f"{name}_{form}", form)
        logits = logits_of(net, rank, tp, pp)
        if logits is not None and rank == world - 1:
            torch.save(logits, out / f"{name}_{form}.logits")


def build_latent(config):
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec, get_gpt_mtp_block_spec
    from megatron.core.transformer import multi_latent_attention
    from megatron.core.transformer.dot_product_attention import DotProductAttention
    from megatron.core.transformer.transformer_config import MLATransformerConfig
    multi_latent_attention.HAVE_TE = False
    original = DotProductAttention.__init__
    DotProductAttention.__init__ = lambda self, *words, k_channels=None, v_channels=None, **more: original(self, *words, **more)
    c = config
    shape = MLATransformerConfig(
        num_layers=c["num_hidden_layers"], hidden_size=c["hidden_size"], ffn_hidden_size=c["intermediate_size"],
        num_attention_heads=c["num_attention_heads"], normalization="RMSNorm", gated_linear_unit=True,
        activation_func=torch.nn.functional.silu, use_cpu_initialization=True, bias_activation_fusion=False,
        bias_dropout_fusion=False, apply_rope_fusion=False, masked_softmax_fusion=False, gradient_accumulation_fusion=False,
        add_bias_linear=False, multi_latent_attention=True, qk_layernorm=True, rope_type="rope", q_lora_rank=c["q_lora_rank"],
        kv_lora_rank=c["kv_lora_rank"], qk_head_dim=c["qk_nope_head_dim"], qk_pos_emb_head_dim=c["qk_rope_head_dim"],
        v_head_dim=c["v_head_dim"], num_moe_experts=c["n_routed_experts"], moe_router_topk=2,
        moe_ffn_hidden_size=c["moe_intermediate_size"], moe_shared_expert_intermediate_size=c["moe_intermediate_size"],
        moe_layer_freq=[0, 1, 1, 1], moe_router_score_function="sigmoid", moe_router_enable_expert_bias=True, mtp_num_layers=1,
        params_dtype=torch.bfloat16, bf16=True, pipeline_dtype=torch.bfloat16)
    spec = get_gpt_decoder_block_spec(shape, use_transformer_engine=False, normalization="RMSNorm")
    return GPTModel(config=shape, transformer_layer_spec=spec,
                    mtp_block_spec=get_gpt_mtp_block_spec(shape, spec, use_transformer_engine=False), vocab_size=128,
                    max_sequence_length=64, share_embeddings_and_output_weights=False, position_embedding_type="rope")


def check_latent(rank, out, form):
    config = megatron_files.MODELS["deepseek_v3"]
    with megatron(0, 1, 1, 1, 1, 29790 + (form == "torch")):
        net = build_latent(config)
        load(net, out / f"latent_{form}", form)
        megatron_files.PADDING = 0.0
        wanted = megatron_files.chunk_tensors(config, megatron_files.hf_tensors(config), (0, 0, 0), 0, config["num_hidden_layers"],
                                              1, 1, 1, 1, "local", 128)
        found = net.state_dict()
        for key, tensor in wanted.items():
            assert tensor is None or torch.equal(found[key].to(tensor.dtype), tensor), key
        missing = [key for key, value in found.items() if value is not None and key not in wanted]
        assert all("local_tokens_per_expert" in key for key in missing), missing
        print(f"latent {form}: {len(wanted)} tensors are equal", flush=True)


def judge_latent(out, trireme):
    from safetensors.torch import save_file
    config = megatron_files.MODELS["deepseek_v3"]
    megatron_files.write_config(out / "latent", config)
    save_file(megatron_files.hf_tensors(config), out / "latent" / "model.safetensors", metadata={"format": "pt"})
    for form in ("torch", "torch_dist"):
        convert(trireme, out / "latent", out / f"latent_{form}", form, 1, 1, 1, 128)
        multiprocessing.spawn(check_latent, (out, form), nprocs=1)


def judge(out, name, trireme):
    model, tp, pp, ep = CASES[name]
    wanted, good = write_model(out / name, model), True
    for form in ("torch", "torch_dist"):
        convert(trireme, out / name, out / f"{name}_{form}", form, tp, pp, ep, megatron_judge.PADDED)
        world = max(tp, pp, ep)
        multiprocessing.spawn(check, (world, out, name, form), nprocs=world)
        logits = torch.load(out / f"{name}_{form}.logits")[..., :megatron_judge.VOCABULARY]
        difference = (logits - wanted).abs().max().item()
        print(f"{name} {form}: logits differ by at most {difference:.2e} of {wanted.abs().max().item():.1f}", flush=True)
        good = good and difference < TOLERANCE
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--trireme", default="build/trireme")
    parser.add_argument("--only", nargs="*", default=[*CASES, "latent"])
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    trireme, good = options.trireme.split(), True
    for name in options.only:
        if name == "latent":
            judge_latent(options.out, trireme)
        else:
            good = judge(options.out, name, trireme) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
