"""Tiny random models of each family, written by Hugging Face transformers itself, with rows to run them on."""
import json
import random

import torch
import transformers

import published_models

transformers.utils.logging.disable_progress_bar()
VOCABULARY = 1003  # divides over no ranks
PADDING = 700  # held by the second of two ranks
COMMON = dict(vocab_size=VOCABULARY, hidden_size=64, intermediate_size=96, num_attention_heads=4, num_key_value_heads=2,
              max_position_embeddings=128, rms_norm_eps=1e-5, initializer_range=0.1, tie_word_embeddings=False)
LLAMA3_ROPE = dict(rope_type="llama3", rope_theta=5e5, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=32)
LIMIT = 16
LINEAR_ROPE = dict(rope_type="linear", rope_theta=1e4, factor=2.0)
# Family (with the trait it shows) to its transformers config. Key-value heads: as many as query heads, fewer, one.
FAMILIES = {
    "llama": (transformers.LlamaConfig, dict(num_key_value_heads=4, rope_parameters=LINEAR_ROPE)),
    "llama3": (transformers.LlamaConfig, dict(rope_parameters=LLAMA3_ROPE, attention_bias=True, mlp_bias=True)),
    "qwen2": (transformers.Qwen2Config, dict(tie_word_embeddings=True)),
    # Windows shorter than most rows: in all layers, in the upper ones.
    "mistral": (transformers.MistralConfig, dict(head_dim=24, sliding_window=7)),
    "ministral": (transformers.MinistralConfig, dict(head_dim=24, sliding_window=7)),
    "qwen2_window": (transformers.Qwen2Config, dict(use_sliding_window=True, sliding_window=5, max_window_layers=2)),
    "phi3": (transformers.Phi3Config, dict(sliding_window=11, pad_token_id=0)),
    # Rotary embeddings that change with the length of a row, at one that some rows reach. Phi-4-mini's: a part of each head.
    "phi3_long": (transformers.Phi3Config, dict(
        pad_token_id=0, original_max_position_embeddings=LIMIT, partial_rotary_factor=0.75, rope_parameters=dict(
            rope_type="longrope", rope_theta=1e4, original_max_position_embeddings=LIMIT, partial_rotary_factor=0.75,
            short_factor=[1.0, 1.1, 1.3, 1.2, 1.5, 2.0], long_factor=[1.2, 2.0, 4.0, 6.0, 7.0, 9.0]))),
    "llama_dynamic": (transformers.LlamaConfig, dict(max_position_embeddings=LIMIT, rope_parameters=dict(
        rope_type="dynamic", rope_theta=1e4, factor=3.0))),
    "granite": (transformers.GraniteConfig, dict(embedding_multiplier=3.0, attention_multiplier=0.3,
                                                 residual_multiplier=0.6, logits_scaling=2.5, tie_word_embeddings=True)),
    # Norms at the end of branches, or at both ends; one norm over all heads, one key head of which two ranks have a copy.
    "olmo2": (transformers.Olmo2Config, dict(num_key_value_heads=1, attention_bias=True, pad_token_id=0)),
    "olmo3": (transformers.Olmo3Config, dict(sliding_window=7, pad_token_id=0, rope_parameters=dict(
        full_attention=dict(rope_type="linear", rope_theta=5e5, factor=4.0),
        sliding_attention=dict(rope_type="default", rope_theta=5e5)))),
    # Adjacent elements rotated, of half a head; gate and up in one matrix.
    "glm4": (transformers.Glm4Config, dict(head_dim=24, pad_token_id=0, eos_token_id=1)),
    "ernie4_5": (transformers.Ernie4_5Config, dict(head_dim=20, use_bias=True, tie_word_embeddings=True)),
    # Windows with a rotary embedding of their own in two of three layers, GELU, norms whose weights are added to 1.
    "gemma3": (transformers.Gemma3TextConfig, dict(
        head_dim=24, sliding_window=7, query_pre_attn_scalar=20, tie_word_embeddings=True, layer_types=None,
        sliding_window_pattern=3, rope_parameters=dict(
            full_attention=dict(rope_type="linear", rope_theta=1e6, factor=8.0),
            sliding_attention=dict(rope_type="default", rope_theta=1e4)))),
    # Soft caps of scores and logits, small enough to matter.
    "gemma2": (transformers.Gemma2Config, dict(
        head_dim=24, sliding_window=7, query_pre_attn_scalar=20, tie_word_embeddings=True, attn_logit_softcapping=2.0,
        final_logit_softcapping=5.0)),
    # Norms of heads after the rotary embedding.
    "hunyuan": (transformers.HunYuanDenseV1Config, dict(head_dim=24, rope_parameters=dict(
        rope_type="dynamic", rope_theta=1e4, alpha=50.0, factor=1.0))),
    "qwen3": (transformers.Qwen3Config, dict(head_dim=24, num_key_value_heads=1)),
    # One layer is dense; more experts than any token of some rows meets.
    "qwen3_moe": (transformers.Qwen3MoeConfig, dict(head_dim=24, num_experts=8, num_experts_per_tok=3,
                                                    moe_intermediate_size=40, norm_topk_prob=True,
                                                    mlp_only_layers=[1])),
}
LATENT = dict(num_key_value_heads=4, kv_lora_rank=16, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16,
              n_routed_experts=8, n_shared_experts=2, num_experts_per_tok=2, moe_intermediate_size=24, n_group=4,
              topk_group=2, first_k_dense_replace=1)
YARN_ROPE = dict(rope_type="yarn", rope_theta=1e4, factor=4.0, original_max_position_embeddings=32, beta_fast=32,
                 beta_slow=1, mscale=0.707, mscale_all_dim=0.5)
FAMILIES |= {
    "qwen2_moe": (transformers.Qwen2MoeConfig, dict(num_experts=8, num_experts_per_tok=1, moe_intermediate_size=40,
                                                    shared_expert_intermediate_size=48, tie_word_embeddings=True)),
    "mixtral": (transformers.MixtralConfig, dict(num_local_experts=8, num_experts_per_tok=2, sliding_window=None)),
    "deepseek_v2": (transformers.DeepseekV2Config, dict(LATENT, q_lora_rank=None, topk_method="group_limited_greedy",
                                                        routed_scaling_factor=1.5, rope_parameters=YARN_ROPE)),
    "deepseek_v3": (transformers.DeepseekV3Config, dict(LATENT, q_lora_rank=24, rope_parameters=dict(
        YARN_ROPE, mscale=1.0, mscale_all_dim=1.0))),
}
# Heads rotated in part; a norm of each head or of all; experts of every layer, or of all but the first.
FAMILIES |= {
    "glm4_moe": (transformers.Glm4MoeConfig, dict(
        head_dim=24, use_qk_norm=True, attention_bias=True, moe_intermediate_size=40, n_routed_experts=8,
        num_experts_per_tok=3, n_shared_experts=2, routed_scaling_factor=1.5)),
    "minimax_m2": (transformers.MiniMaxM2Config, dict(
        head_dim=24, partial_rotary_factor=0.5, intermediate_size=40, num_local_experts=8, num_experts_per_tok=3,
        bos_token_id=1, eos_token_id=2)),
    "ernie4_5_moe": (transformers.Ernie4_5_MoeConfig, dict(
        moe_num_experts=8, moe_k=3, moe_intermediate_size=40, moe_num_shared_experts=1, tie_word_embeddings=True)),
    "hunyuan_moe": (transformers.HunYuanMoEV1Config, dict(head_dim=24, intermediate_size=40, num_experts=8, moe_topk=2)),
    # Sinks, windows in every other layer, biases; a limit that many elements of gate and up exceed.
    "gpt_oss": (transformers.GptOssConfig, dict(
        head_dim=24, intermediate_size=40, num_local_experts=8, num_experts_per_tok=3, sliding_window=7, swiglu_limit=0.7,
        rope_parameters=dict(rope_type="yarn", rope_theta=1.5e5, factor=4.0, beta_fast=32.0, beta_slow=1.0,
                             truncate=False, original_max_position_embeddings=32))),
}
STACKED = ["gpt_oss"]  # files hold all experts of a layer in one tensor, as transformers does in memory
# Layers with a state that passes along the sequence, one layer in three with attention, whose output is gated; projections
# fused in files or not; key heads as many as two ranks need, of two value heads each.
DELTA = dict(head_dim=24, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=12,
             linear_value_head_dim=20, full_attention_interval=3)
GATED_EXPERTS = dict(num_experts=8, num_experts_per_tok=3, moe_intermediate_size=40, shared_expert_intermediate_size=48)
FAMILIES |= {
    "qwen3_next": (transformers.Qwen3NextConfig, dict(DELTA, **GATED_EXPERTS, mlp_only_layers=[1])),
    "qwen3_5": (transformers.Qwen3_5TextConfig, dict(DELTA, tie_word_embeddings=True, rope_parameters=dict(
        rope_type="default", rope_theta=1e5, partial_rotary_factor=0.5, mrope_section=[2, 2, 2], mrope_interleaved=True))),
    "qwen3_5_moe": (transformers.Qwen3_5MoeTextConfig, dict(DELTA, **GATED_EXPERTS)),
}
# Code that is published with the files. One matrix for q, k and v, by group of heads or not; biases by switches of their own;
# factors by other keys; rows of the head that are scaled to length 1; latent attention without experts.
FAMILIES |= {
    "internlm2": (published_models.InternLM2Config, dict(max_position_embeddings=LIMIT, rope_parameters=dict(
        rope_type="dynamic", rope_theta=1e4, factor=3.0))),
    "internlm3": (published_models.InternLM3Config, dict(head_dim=24, bias=True)),
    "baichuan": (published_models.BaichuanConfig, dict(num_key_value_heads=4)),
    "minicpm": (published_models.MiniCPMConfig, dict(scale_emb=3.0, scale_depth=1.4, dim_model_base=32,
                                                     tie_word_embeddings=True)),
    "minicpm3": (transformers.MiniCPM3Config, dict(
        num_key_value_heads=4, q_lora_rank=24, kv_lora_rank=16, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=20,
        scale_emb=3.0, scale_depth=1.4, dim_model_base=32, rope_parameters=dict(
            rope_type="longrope", rope_theta=1e4, original_max_position_embeddings=LIMIT,
            short_factor=[1.0, 1.1, 1.3, 2.0], long_factor=[1.2, 2.0, 4.0, 9.0]))),
}
# Each of whose traits another family has. Layers without a rotary embedding, with and without windows in the others: there a
# bias of keys would have no gradient but rounding.
FAMILIES |= {
    "seed_oss": (transformers.SeedOssConfig, dict(
        head_dim=24, attention_out_bias=True, mlp_bias=True, attention_dropout=0.0, residual_dropout=0.0, pad_token_id=0)),
    "smollm3": (transformers.SmolLM3Config, dict(
        no_rope_layer_interval=2, use_sliding_window=True, sliding_window=7, mlp_bias=True, pad_token_id=0,
        rope_parameters=LINEAR_ROPE)),
    "exaone4": (transformers.Exaone4Config, dict(
        head_dim=24, num_key_value_heads=1, sliding_window=7, sliding_window_pattern=3, rope_parameters=LLAMA3_ROPE)),
    "gemma": (transformers.GemmaConfig, dict(head_dim=24, num_key_value_heads=1, tie_word_embeddings=True)),
    "glm": (transformers.GlmConfig, dict(head_dim=24, pad_token_id=0, eos_token_id=1)),
    "olmoe": (transformers.OlmoeConfig, dict(
        intermediate_size=40, num_experts=8, num_experts_per_tok=3, num_key_value_heads=1, pad_token_id=0)),
    "dots1": (transformers.Dots1Config, dict(
        head_dim=24, moe_intermediate_size=40, n_routed_experts=8, n_shared_experts=2, num_experts_per_tok=3, n_group=4,
        topk_group=2, first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=1.5, sliding_window=7,
        max_window_layers=2)),
    "exaone_moe": (transformers.ExaoneMoeConfig, dict(
        head_dim=24, sliding_window=7, sliding_window_pattern=2, moe_intermediate_size=40, num_experts=8, num_shared_experts=1,
        num_experts_per_tok=3, n_group=4, topk_group=2)),
    "hy_v3": (transformers.HYV3Config, dict(
        head_dim=24, moe_intermediate_size=40, num_experts=8, num_experts_per_tok=3, num_shared_experts=2,
        attention_bias=True)),
    "glm4_moe_lite": (transformers.Glm4MoeLiteConfig, dict(
        {key: value for key, value in LATENT.items() if key != "first_k_dense_replace"}, q_lora_rank=24,
        routed_scaling_factor=1.5)),
    "bailing_moe": (published_models.BailingMoeV2Config, dict(
        head_dim=24, use_qk_norm=True, use_qkv_bias=True, use_bias=True, moe_intermediate_size=40, num_experts=8,
        num_shared_experts=2, num_experts_per_tok=3, n_group=4, topk_group=2, routed_scaling_factor=1.5)),
    "solar_open": (transformers.SolarOpenConfig, dict(
        head_dim=24, moe_intermediate_size=40, n_routed_experts=8, n_shared_experts=1, num_experts_per_tok=3,
        attention_bias=True, rope_parameters=dict(YARN_ROPE, rope_theta=1e6))),
}
# How files name an expert's matrices where they differ from gate_proj, up_proj and down_proj below mlp.
# And other weights, by a part of their names in memory.
OTHER_NAMES = {"bailing_moe": {here: there for there, here in published_models.BAILING_NAMES.items()},
               "exaone_moe": {".mlp.gate.e_score": ".mlp.e_score"},
               "hy_v3": {".mlp.gate.weight": ".mlp.router.gate.weight", ".mlp.shared_experts.": ".mlp.shared_mlp."}}
EXPERT_NAMES = dict.fromkeys(["mixtral", "minimax_m2"], ("block_sparse_moe", dict(gate="w1", up="w3", down="w2")))


def config_of(family, **changes):
    make, traits = FAMILIES[family]
    settings = {**COMMON, "num_hidden_layers": 5, **traits, **changes}
    if family == "ministral":  # windows in every other layer
        kinds = ["sliding_attention", "full_attention"] * settings["num_hidden_layers"]
        settings["layer_types"] = kinds[:settings["num_hidden_layers"]]
    return make(**settings)


def depends_on_length(config):
    return (getattr(config, "rope_parameters", None) or {}).get("rope_type") in ("dynamic", "longrope")


def forget_lengths(model):
    """transformers' dynamic frequencies stay those of the longest row so far; here each pass has those of its own row."""
    def start_anew(module, _):
        module.inv_freq, module.max_seq_len_cached = module.original_inv_freq, module.original_max_seq_len

    for module in model.modules():
        if getattr(module, "rope_type", None) == "dynamic":
            module.register_forward_pre_hook(start_anew)
    return model


def write_model(config, folder):
    """Random weights; norms, biases, routers' corrections and the padding row too, which transformers would start at one and zero."""
    torch.manual_seed(11)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1 or name.endswith(("e_score_correction_bias", "_proj_bias")):
                parameter.add_(torch.randn_like(parameter) * 0.2)
            if name.endswith("A_log"):  # states that last for some tokens: sums of large decays are rounded in fp32
                parameter.copy_(torch.rand_like(parameter) * 3 - 3)
        embedding = model.get_input_embeddings()
        if embedding.padding_idx is not None:
            embedding.weight[embedding.padding_idx].normal_(0, 0.1)
        for name, buffer in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer.add_(torch.randn_like(buffer) * 0.2)
    model.save_pretrained(folder)
    return forget_lengths(model)


def make_rows(count=8, shortest=2, longest=40, seed=5):
    """Rows of different length; some labels are not trained, of the fourth row none."""
    generator = random.Random(seed)
    rows = []
    for index in range(count):
        ids = [generator.randrange(VOCABULARY) for _ in range(generator.randrange(shortest, longest))]
        labels = [-100 if generator.random() < 0.3 or index == 3 else token for token in ids]
        rows.append({"input_ids": ids, "labels": labels})
    return rows


def with_padding(rows):
    """The same, each beginning with the padding token, whose embedding gets no gradient where a config names it."""
    return [{**row, "input_ids": [PADDING, *row["input_ids"][1:]]} for row in rows]


def pack(rows, count):
    """The same rows as documents of `count` rows, in turn."""
    packed = [{"input_ids": [], "labels": [], "starts": []} for _ in range(count)]
    for index, row in enumerate(rows):
        into = packed[index % count]
        into["starts"].append(len(into["input_ids"]))
        into["input_ids"] += row["input_ids"]
        into["labels"] += row["labels"]
    return packed


def rows_of(case):
    """Rows for a case of layouts.py."""
    rows = with_padding(make_rows())
    if case["rows"] == "one":
        return rows[:1]
    if case["rows"] == "silent":  # micro batches go to the data-parallel ranks in turn: the last one's are not trained
        for index, row in enumerate(rows):
            if index // case["micro_batch"] % case["data"] == case["data"] - 1:
                row["labels"] = [-100] * len(row["labels"])
    return rows


def program_rows(case, rows):
    """What the program gets; transformers, which has no ranks and no packing, always sees the rows one by one."""
    return pack(rows, 3) if case["rows"] == "packed" else rows


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def trained_tokens(rows):
    return sum(label != -100 for row in rows for label in row["labels"][1:])


def loss_parts(model, rows):
    """What each row adds to the mean loss over the trained tokens of all rows."""
    tokens = trained_tokens(rows)
    for row in rows:
        labels = torch.tensor(row["labels"][1:])
        if (labels == -100).all():
            continue
        logits = model(input_ids=torch.tensor([row["input_ids"]])).logits[0, :-1].float()
        yield torch.nn.functional.cross_entropy(logits, labels, ignore_index=-100, reduction="sum") / tokens


def backward(model, rows, parts=loss_parts):
    """Adds up the gradients of the mean loss over the trained tokens of all rows; that loss, and those tokens."""
    loss = 0.0
    for part in parts(model, rows):
        part.backward()
        loss += part.item()
    return loss, trained_tokens(rows)


def loss_of(model, rows):
    with torch.no_grad():
        return sum(part.item() for part in loss_parts(model, rows))


def published_name(name, model_type):
    """Of a weight, or of a part of it, that has another name in memory."""
    for here, there in OTHER_NAMES.get(model_type, {}).items():
        name = name.replace(here, there)
    return name


def in_files(name, tensor, model_type):
    """A parameter as files hold it: experts, which transformers stacks in memory, one by one."""
    block, words = EXPERT_NAMES.get(model_type, ("mlp", dict(gate="gate_proj", up="up_proj", down="down_proj")))
    name = published_name(name, model_type).replace(".mlp.", f".{block}.")
    if not name.endswith(("experts.gate_up_proj", "experts.down_proj")) or model_type in STACKED:
        return {name: tensor}
    stem, what = name.rsplit(".", 1)
    parts = dict(zip(("gate", "up"), tensor.chunk(2, dim=1))) if what == "gate_up_proj" else {"down": tensor}
    return {f"{stem}.{expert}.{words[part]}.weight": stack[expert].contiguous()
            for part, stack in parts.items() for expert in range(len(stack))}


def gradients(model):
    found = {}
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            found |= in_files(name, parameter.grad, model.config.model_type)
    return found


def norm_of(tensors):
    return sum(tensor.double().square().sum().item() for tensor in tensors) ** 0.5
