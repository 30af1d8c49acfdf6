"""Tiny models as Megatron checkpoints, written by torch alone in the layout that megatron-core has, from Hugging Face
tensors: formats `torch` (any tp, pp, vpp, ep) and `torch_dist`. tests/parity/megatron_judge.py has megatron-core write
the same."""
import argparse
import json
import pathlib

import torch
import torch.distributed.checkpoint as dcp

LAYERS, HIDDEN, FFN, HEADS, GROUPS, DIM, VOCABULARY, EXPERTS = 4, 32, 48, 4, 2, 8, 100, 4
PADDING = 7.0  # noise in rows of the vocabulary that no token has
COMMON = dict(hidden_size=HIDDEN, intermediate_size=FFN, num_attention_heads=HEADS, num_key_value_heads=GROUPS,
              num_hidden_layers=LAYERS, vocab_size=VOCABULARY, max_position_embeddings=64, rms_norm_eps=1e-5,
              rope_theta=10000.0, tie_word_embeddings=False, torch_dtype="bfloat16", hidden_act="silu")
LATENT = dict(q_lora_rank=16, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8,
              num_key_value_heads=HEADS)
MODELS = {
    "llama": dict(COMMON, model_type="llama", architectures=["LlamaForCausalLM"], head_dim=DIM),
    "qwen2": dict(COMMON, model_type="qwen2", architectures=["Qwen2ForCausalLM"], tie_word_embeddings=True),
    "qwen3": dict(COMMON, model_type="qwen3", architectures=["Qwen3ForCausalLM"], head_dim=DIM),
    "qwen3_moe": dict(COMMON, model_type="qwen3_moe", architectures=["Qwen3MoeForCausalLM"], head_dim=DIM,
                      num_experts=EXPERTS, num_experts_per_tok=2, moe_intermediate_size=16, decoder_sparse_step=1,
                      mlp_only_layers=[], norm_topk_prob=True),
}
MODELS["deepseek_v3"] = dict(COMMON | LATENT, model_type="deepseek_v3", architectures=["DeepseekV3ForCausalLM"],
                             n_routed_experts=EXPERTS, num_experts_per_tok=2, moe_intermediate_size=16,
                             n_shared_experts=1, first_k_dense_replace=1, n_group=1, topk_group=1,
                             routed_scaling_factor=1.0, norm_topk_prob=True, scoring_func="sigmoid",
                             topk_method="noaux_tc", num_nextn_predict_layers=1)


def draw(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, dtype=torch.float32).to(dtype)


def attention(config, prefix):
    if "kv_lora_rank" in config:
        c = config
        qk = c["qk_nope_head_dim"] + c["qk_rope_head_dim"]
        return {"q_a_proj.weight": draw(c["q_lora_rank"], HIDDEN), "q_a_layernorm.weight": draw(c["q_lora_rank"]),
                "q_b_proj.weight": draw(HEADS * qk, c["q_lora_rank"]),
                "kv_a_proj_with_mqa.weight": draw(c["kv_lora_rank"] + c["qk_rope_head_dim"], HIDDEN),
                "kv_a_layernorm.weight": draw(c["kv_lora_rank"]),
                "kv_b_proj.weight": draw(HEADS * (c["qk_nope_head_dim"] + c["v_head_dim"]), c["kv_lora_rank"]),
                "o_proj.weight": draw(HIDDEN, HEADS * c["v_head_dim"])}
    found = {"q_proj.weight": draw(HEADS * DIM, HIDDEN), "k_proj.weight": draw(GROUPS * DIM, HIDDEN),
             "v_proj.weight": draw(GROUPS * DIM, HIDDEN), "o_proj.weight": draw(HIDDEN, HEADS * DIM)}
    if config["model_type"] == "qwen2":
        found.update({"q_proj.bias": draw(HEADS * DIM), "k_proj.bias": draw(GROUPS * DIM), "v_proj.bias": draw(GROUPS * DIM)})
    if config["model_type"].startswith("qwen3"):
        found.update({"q_norm.weight": draw(DIM), "k_norm.weight": draw(DIM)})
    return found


def mlp(width):
    return {"gate_proj.weight": draw(width, HIDDEN), "up_proj.weight": draw(width, HIDDEN), "down_proj.weight": draw(HIDDEN, width)}


def has_experts(config, layer):
    return config["model_type"] == "qwen3_moe" or layer >= config.get("first_k_dense_replace", LAYERS + 1)


def hf_tensors(config):
    """Random weights under the names of Hugging Face."""
    torch.manual_seed(5)
    found = {"model.embed_tokens.weight": draw(VOCABULARY, HIDDEN), "model.norm.weight": draw(HIDDEN)}
    if not config["tie_word_embeddings"]:
        found["lm_head.weight"] = draw(VOCABULARY, HIDDEN)
    for layer in range(LAYERS + config.get("num_nextn_predict_layers", 0)):
        parts = {f"self_attn.{name}": tensor for name, tensor in attention(config, layer).items()}
        parts.update({"input_layernorm.weight": draw(HIDDEN), "post_attention_layernorm.weight": draw(HIDDEN)})
        if has_experts(config, layer):
            parts["mlp.gate.weight"] = draw(EXPERTS, HIDDEN)
            for expert in range(EXPERTS):
                parts.update({f"mlp.experts.{expert}.{name}": tensor for name, tensor in mlp(16).items()})
            if config["model_type"] == "deepseek_v3":
                parts["mlp.gate.e_score_correction_bias"] = draw(EXPERTS, dtype=torch.float32)
                parts.update({f"mlp.shared_experts.{name}": tensor for name, tensor in mlp(16).items()})
        else:
            parts.update({f"mlp.{name}": tensor for name, tensor in mlp(FFN).items()})
        if layer >= LAYERS:
            parts.update({"enorm.weight": draw(HIDDEN), "hnorm.weight": draw(HIDDEN), "eh_proj.weight": draw(HIDDEN, 2 * HIDDEN),
                          "shared_head.norm.weight": draw(HIDDEN)})
        found.update({f"model.layers.{layer}.{name}": tensor for name, tensor in parts.items()})
    return found


def padded(tensor, tensor_ranks, divisor):
    rows = -(-tensor.shape[0] // (divisor * tensor_ranks)) * divisor * tensor_ranks
    return torch.cat([tensor, torch.full((rows - tensor.shape[0], tensor.shape[1]), PADDING, dtype=tensor.dtype)])


def fused_qkv(q, k, v):
    """Per query group its queries, then its key, then its value."""
    tail = q.shape[1:]
    parts = [part.view(GROUPS, -1, *tail) for part in (q, k, v)]
    return torch.cat(parts, dim=1).reshape(-1, *tail)


def layer_tensors(config, hf, layer, style):
    """A layer's tensors as a rank without tensor parallelism has them: name to (tensor, how it is split)."""
    get = lambda name: hf[f"model.layers.{layer}.{name}"]
    has = lambda name: f"model.layers.{layer}.{name}" in hf
    moe, latent = has_experts(config, layer), "kv_lora_rank" in config
    te = style == "te"
    found = {}
    found["self_attention.linear_qkv.layer_norm_weight" if te and not latent else "input_layernorm.weight"] = (get("input_layernorm.weight"), None)
    if latent:
        found["self_attention.linear_q_down_proj.weight"] = (get("self_attn.q_a_proj.weight"), None)
        found["self_attention.linear_q_up_proj.weight"] = (get("self_attn.q_b_proj.weight"), 0)
        found["self_attention.linear_kv_down_proj.weight"] = (get("self_attn.kv_a_proj_with_mqa.weight"), None)
        found["self_attention.linear_kv_up_proj.weight"] = (get("self_attn.kv_b_proj.weight"), 0)
        found["self_attention.linear_q_up_proj.layer_norm_weight" if te else "self_attention.q_layernorm.weight"] = (get("self_attn.q_a_layernorm.weight"), None)
        found["self_attention.linear_kv_up_proj.layer_norm_weight" if te else "self_attention.kv_layernorm.weight"] = (get("self_attn.kv_a_layernorm.weight"), None)
    else:
        for kind in ("weight", "bias"):
            if has(f"self_attn.q_proj.{kind}"):
                found[f"self_attention.linear_qkv.{kind}"] = (fused_qkv(*(get(f"self_attn.{part}_proj.{kind}") for part in "qkv")), 0)
        for part in "qk":
            if has(f"self_attn.{part}_norm.weight"):
                found[f"self_attention.{part}_layernorm.weight"] = (get(f"self_attn.{part}_norm.weight"), None)
    found["self_attention.linear_proj.weight"] = (get("self_attn.o_proj.weight"), 1)
    found["mlp.linear_fc1.layer_norm_weight" if te and not moe else "pre_mlp_layernorm.weight"] = (get("post_attention_layernorm.weight"), None)
    both = lambda stem: torch.cat([get(f"{stem}.gate_proj.weight"), get(f"{stem}.up_proj.weight")])
    if not moe:
        found["mlp.linear_fc1.weight"] = (both("mlp"), "halves")
        found["mlp.linear_fc2.weight"] = (get("mlp.down_proj.weight"), 1)
        return found
    found["mlp.router.weight"] = (get("mlp.gate.weight"), None)
    if has("mlp.gate.e_score_correction_bias"):
        found["mlp.router.expert_bias"] = (get("mlp.gate.e_score_correction_bias"), None)
        found["mlp.shared_experts.linear_fc1.weight"] = (both("mlp.shared_experts"), "halves")
        found["mlp.shared_experts.linear_fc2.weight"] = (get("mlp.shared_experts.down_proj.weight"), 1)
    for expert in range(EXPERTS):
        found[f"mlp.experts.{expert}.linear_fc1.weight"] = (both(f"mlp.experts.{expert}"), "halves")
        found[f"mlp.experts.{expert}.linear_fc2.weight"] = (get(f"mlp.experts.{expert}.down_proj.weight"), 1)
    return found


def split(tensor, how, rank, ranks):
    if how is None:
        return tensor.clone()
    if how == "halves":
        return torch.cat([half.chunk(ranks)[rank] for half in tensor.chunk(2)])
    return tensor.chunk(ranks, dim=how)[rank].clone()


def local_experts(found, style, ep, ep_ranks):
    """A rank's experts under its own numbers, as SequentialMLP, TEGroupedMLP or GroupedMLP name them."""
    count, result, mine = EXPERTS // ep_ranks, {}, {}
    for name, tensor in found.items():
        stem, mark, rest = name.partition("mlp.experts.")
        if not mark:
            result[name] = tensor
            continue
        expert, _, kind = rest.partition(".")
        if int(expert) // count == ep:
            mine.setdefault(stem, {})[int(expert) % count, kind] = tensor
    for stem, parts in mine.items():
        if style == "grouped":
            for kind, name in (("linear_fc1.weight", "weight1"), ("linear_fc2.weight", "weight2")):
                stack = torch.stack([parts[i, kind].t().contiguous() for i in range(count)])  # [experts, in, out]
                shape = (stack.shape[1], -1) if name == "weight1" else (-1, stack.shape[2])
                result[f"{stem}mlp.experts.{name}"] = stack.view(shape)
            continue
        for (i, kind), tensor in parts.items():
            result[f"{stem}mlp.experts." + (f"{kind}{i}" if style == "te" else f"local_experts.{i}.{kind}")] = tensor
    return result


def arguments(config, tp, pp, vpp, ep, **more):
    return argparse.Namespace(
        num_layers=LAYERS, hidden_size=HIDDEN, num_attention_heads=HEADS, num_query_groups=GROUPS,
        group_query_attention=True, tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp,
        virtual_pipeline_model_parallel_size=vpp if vpp > 1 else None, expert_model_parallel_size=ep,
        num_experts=EXPERTS if config["model_type"] in ("qwen3_moe", "deepseek_v3") else None, swiglu=True,
        multi_latent_attention="kv_lora_rank" in config, params_dtype=torch.bfloat16, iteration=3,
        consumed_train_samples=24, save=pathlib.PosixPath("checkpoints"), **more)


def write_torch(directory, config, hf, tp=1, pp=1, vpp=1, ep=1, style="local", divisor=8, **more):
    """latest_checkpointed_iteration.txt and iter_0000003/mp_rank_…/model_optim_rng.pt."""
    per_chunk, iteration = LAYERS // (pp * vpp), directory / "iter_0000003"
    for rank in [(t, p, e) for t in range(tp) for p in range(pp) for e in range(ep)]:
        chunks = [chunk_tensors(config, hf, rank, v, per_chunk, tp, pp, vpp, ep, style, divisor) for v in range(vpp)]
        t, p, e = rank
        folder = iteration / (f"mp_rank_{t:02}" + (f"_{p:03}" if pp > 1 else "") + (f"_{e:03}" if ep > 1 else ""))
        folder.mkdir(parents=True)
        model = {"model": chunks[0]} if vpp == 1 else {f"model{v}": chunk for v, chunk in enumerate(chunks)}
        torch.save(dict(args=arguments(config, tp, pp, vpp, ep, **more), checkpoint_version=3.0, iteration=3, **model,
                        rng_state=[{"torch_rng_state": torch.get_rng_state()}]), folder / "model_optim_rng.pt")
    (directory / "latest_checkpointed_iteration.txt").write_text("3")


def chunk_tensors(config, hf, rank, v, per_chunk, tp, pp, vpp, ep, style, divisor):
    t, p, e = rank
    first, found = (v * pp + p) * per_chunk, {}
    is_first, is_last = (v, p) == (0, 0), (v, p) == (vpp - 1, pp - 1)
    embedding = padded(hf["model.embed_tokens.weight"], tp, divisor)
    if is_first:
        found["embedding.word_embeddings.weight"] = split(embedding, 0, t, tp)
    for i in range(per_chunk):
        for name, (tensor, how) in layer_tensors(config, hf, first + i, style).items():
            found[f"decoder.layers.{i}.{name}"] = split(tensor, how, t, tp)
        found[f"decoder.layers.{i}.self_attention.core_attention._extra_state"] = None
    if is_last:
        found["decoder.final_layernorm.weight"] = hf["model.norm.weight"]
        if "lm_head.weight" in hf or pp > 1:
            head = padded(hf["lm_head.weight"], tp, divisor) if "lm_head.weight" in hf else embedding
            found["output_layer.weight"] = split(head, 0, t, tp)
        for k in range(config.get("num_nextn_predict_layers", 0)):
            for name, (tensor, how) in layer_tensors(config, hf, LAYERS + k, style).items():
                found[f"mtp.layers.{k}.transformer_layer.{name}"] = split(tensor, how, t, tp)
            get = lambda name: hf[f"model.layers.{LAYERS + k}.{name}.weight"]
            found.update({f"mtp.layers.{k}.{name}.weight": get(name) for name in ("enorm", "hnorm")})
            found[f"mtp.layers.{k}.eh_proj.weight"] = split(get("eh_proj"), 0, t, tp)
            found[f"mtp.layers.{k}.final_layernorm.weight"] = get("shared_head.norm")
    return local_experts(found, style, e, ep)


def stacked(config, hf, divisor):
    """Tensors of all layers, and of all experts, along leading axes where all layers are of one kind."""
    found, layers = {}, [layer_tensors(config, hf, i, "te") for i in range(LAYERS)]
    for layer, tensors in enumerate(layers):
        experts = {}
        for name, (tensor, _) in tensors.items():
            stem, mark, rest = name.partition("mlp.experts.")
            if mark:
                experts.setdefault("mlp.experts.experts." + rest.partition(".")[2], []).append(tensor)
            else:
                found[f"decoder.layers.{layer}.{name}"] = tensor
        found.update({f"decoder.layers.{layer}.{name}": torch.stack(parts) for name, parts in experts.items()})
    if len({frozenset(tensors) for tensors in layers}) == 1:
        names = {name.split(".", 3)[3] for name in found}
        found = {f"decoder.layers.{name}": torch.stack([found[f"decoder.layers.{i}.{name}"] for i in range(LAYERS)]) for name in names}
    found["embedding.word_embeddings.weight"] = padded(hf["model.embed_tokens.weight"], 1, divisor)
    found["decoder.final_layernorm.weight"] = hf["model.norm.weight"]
    if "lm_head.weight" in hf:
        found["output_layer.weight"] = padded(hf["lm_head.weight"], 1, divisor)
    for k in range(config.get("num_nextn_predict_layers", 0)):
        get = lambda name: hf[f"model.layers.{LAYERS + k}.{name}.weight"]
        experts = {}
        for name, (tensor, _) in layer_tensors(config, hf, LAYERS + k, "te").items():
            stem, mark, rest = name.partition("mlp.experts.")
            if mark:
                experts.setdefault("mlp.experts.experts." + rest.partition(".")[2], []).append(tensor)
            else:
                found[f"mtp.layers.{k}.transformer_layer.{name}"] = tensor
        found.update({f"mtp.layers.{k}.transformer_layer.{name}": torch.stack(parts) for name, parts in experts.items()})
        found.update({f"mtp.layers.{k}.{name}.weight": get(name) for name in ("enorm", "hnorm", "eh_proj")})
        found[f"mtp.layers.{k}.final_layernorm.weight"] = get("shared_head.norm")
    return found


def write_dist(directory, config, hf, divisor=8):
    iteration = directory / "iter_0000003"
    iteration.mkdir(parents=True)
    dcp.save(stacked(config, hf, divisor), checkpoint_id=str(iteration), no_dist=True)
    torch.save(dict(args=arguments(config, 1, 1, 1, 1), checkpoint_version=3.0, iteration=3), iteration / "common.pt")
    (iteration / "metadata.json").write_text(json.dumps(dict(
        sharded_backend="torch_dist", sharded_backend_version=1, common_backend="torch", common_backend_version=1)))
    (directory / "latest_checkpointed_iteration.txt").write_text("3")


def write_config(directory, config):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
