// The config.json files of released models are accepted as they are, and give as many parameters as transformers
// counts.
#include <gtest/gtest.h>

#include <cctype>

#include "core/base/json.h"
#include "models/families.h"
#include "parallel/graph/parameters.h"

namespace trireme {
namespace {

struct Released {
  const char* name;
  const char* config;
  int64_t parameters;  // sum(p.numel() for p in model.parameters())
};

const Released kReleased[] = {
    {"OLMo-2-1124-7B", R"({"architectures": ["Olmo2ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
      "eos_token_id": 100257, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
      "intermediate_size": 11008, "max_position_embeddings": 4096, "model_type": "olmo2", "num_attention_heads": 32,
      "num_hidden_layers": 32, "num_key_value_heads": 32, "pad_token_id": 100277, "rms_norm_eps": 1e-06,
      "rope_scaling": null, "rope_theta": 500000, "tie_word_embeddings": false, "torch_dtype": "float32",
      "use_cache": true, "vocab_size": 100352})",
     7298617344},
    {"OLMo-3-7B", R"({"architectures": ["Olmo3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
      "eos_token_id": 100257, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
      "intermediate_size": 11008, "max_position_embeddings": 65536, "model_type": "olmo3", "num_attention_heads": 32,
      "num_hidden_layers": 32, "num_key_value_heads": 32, "pad_token_id": 100277, "rms_norm_eps": 1e-06,
      "rope_scaling": {"attention_factor": 1.2079441541679836, "beta_fast": 32.0, "beta_slow": 1.0, "factor": 8.0,
      "original_max_position_embeddings": 8192, "rope_type": "yarn"}, "rope_theta": 500000, "sliding_window": 4096,
      "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 100278})",
     7298011136},
    {"GLM-4-9B-0414", R"({"architectures": ["Glm4ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
      "eos_token_id": [151329, 151336, 151338], "head_dim": 128, "hidden_act": "silu", "hidden_size": 4096,
      "initializer_range": 0.02, "intermediate_size": 13696, "max_position_embeddings": 32768, "model_type": "glm4",
      "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 2, "pad_token_id": 151329,
      "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": false,
      "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 151552})",
     9400094720},
    {"ERNIE-4.5-0.3B", R"({"architectures": ["Ernie4_5ForCausalLM"], "bos_token_id": 1, "eos_token_id": 2,
      "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024, "intermediate_size": 3072,
      "max_position_embeddings": 131072, "model_type": "ernie4_5", "num_attention_heads": 16, "num_hidden_layers": 18,
      "num_key_value_heads": 2, "pad_token_id": 0, "rms_norm_eps": 1e-05, "rope_theta": 500000,
      "tie_word_embeddings": true, "torch_dtype": "bfloat16", "use_bias": false, "use_cache": false,
      "vocab_size": 103424})",
     360748032},
    {"Gemma-2-2B", R"({"architectures": ["Gemma2ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
      "attn_logit_softcapping": 50.0, "bos_token_id": 2, "cache_implementation": "hybrid", "eos_token_id": 1,
      "final_logit_softcapping": 30.0, "head_dim": 256, "hidden_act": "gelu_pytorch_tanh",
      "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2304, "initializer_range": 0.02,
      "intermediate_size": 9216, "max_position_embeddings": 8192, "model_type": "gemma2", "num_attention_heads": 8,
      "num_hidden_layers": 26, "num_key_value_heads": 4, "pad_token_id": 0, "query_pre_attn_scalar": 256,
      "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "sliding_window": 4096, "torch_dtype": "float32",
      "use_cache": true, "vocab_size": 256000})",
     2614341888},
    {"Gemma-3-1B", R"({"architectures": ["Gemma3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
      "attn_logit_softcapping": null, "bos_token_id": 2, "cache_implementation": "hybrid", "eos_token_id": [1, 106],
      "final_logit_softcapping": null, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152,
      "initializer_range": 0.02, "intermediate_size": 6912, "max_position_embeddings": 32768,
      "model_type": "gemma3_text", "num_attention_heads": 4, "num_hidden_layers": 26, "num_key_value_heads": 1,
      "pad_token_id": 0, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000,
      "rope_scaling": null, "rope_theta": 1000000, "sliding_window": 512, "sliding_window_pattern": 6,
      "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 262144})",
     999885952},
    {"GLM-4.5-Air", R"({"architectures": ["Glm4MoeForCausalLM"], "attention_bias": true, "attention_dropout": 0.0,
      "eos_token_id": [151329, 151336, 151338], "first_k_dense_replace": 1, "head_dim": 128, "hidden_act": "silu",
      "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 10944, "max_position_embeddings": 131072,
      "model_type": "glm4_moe", "moe_intermediate_size": 1408, "n_group": 1, "n_routed_experts": 128,
      "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 96, "num_experts_per_tok": 8,
      "num_hidden_layers": 46, "num_key_value_heads": 8, "num_nextn_predict_layers": 1, "pad_token_id": 151329,
      "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 1000000,
      "routed_scaling_factor": 1.0, "tie_word_embeddings": false, "topk_group": 1, "torch_dtype": "bfloat16",
      "use_cache": true, "use_qk_norm": false, "vocab_size": 151552})",
     106852245504},
    {"MiniMax-M2", R"({"architectures": ["MiniMaxM2ForCausalLM"], "attention_dropout": 0.0, "attn_type_list": [1, 1],
      "head_dim": 128, "hidden_act": "silu", "hidden_size": 3072, "initializer_range": 0.02, "intermediate_size": 1536,
      "layernorm_full_attention_beta": 1.0, "layernorm_linear_attention_beta": 1.0, "layernorm_mlp_beta": 1.0,
      "max_position_embeddings": 196608, "mlp_intermediate_size": 8192, "model_type": "minimax_m2",
      "mtp_transformer_layers": 1, "num_attention_heads": 48, "num_experts_per_tok": 8, "num_hidden_layers": 62,
      "num_key_value_heads": 8, "num_local_experts": 256, "num_mtp_modules": 3, "output_router_logits": false,
      "qk_norm_type": "per_layer", "rms_norm_eps": 1e-06, "rope_theta": 5000000, "rotary_dim": 64,
      "router_aux_loss_coef": 0.001, "router_jitter_noise": 0.0, "scoring_func": "sigmoid",
      "shared_intermediate_size": 0, "shared_moe_mode": "sigmoid", "sliding_window": null,
      "tie_word_embeddings": false, "use_cache": true, "use_mtp": true, "use_qk_norm": true, "use_routing_bias": true,
      "vocab_size": 200064})",
     228689748992},
    {"Kimi-K2", R"({"architectures": ["DeepseekV3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
      "aux_loss_alpha": 0.001, "bos_token_id": 163584, "eos_token_id": 163585, "first_k_dense_replace": 1,
      "hidden_act": "silu", "hidden_size": 7168, "initializer_range": 0.02, "intermediate_size": 18432,
      "kv_lora_rank": 512, "max_position_embeddings": 131072, "model_type": "kimi_k2", "moe_intermediate_size": 2048,
      "moe_layer_freq": 1, "n_group": 1, "n_routed_experts": 384, "n_shared_experts": 1, "norm_topk_prob": true,
      "num_attention_heads": 64, "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 64,
      "num_nextn_predict_layers": 0, "pretraining_tp": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
      "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06, "rope_scaling": {"beta_fast": 1.0, "beta_slow": 1.0,
      "factor": 32.0, "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096, "type": "yarn"},
      "rope_theta": 50000.0, "routed_scaling_factor": 2.827, "scoring_func": "sigmoid", "seq_aux": true,
      "tie_word_embeddings": false, "topk_group": 1, "topk_method": "noaux_tc", "torch_dtype": "bfloat16",
      "use_cache": true, "v_head_dim": 128, "vocab_size": 163840})",
     1026408209408},
    {"Phi-4-mini", R"({"architectures": ["Phi3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
      "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"}, "bos_token_id": 199999, "embd_pdrop": 0.0,
      "eos_token_id": 199999, "full_attn_mod": 1, "hidden_act": "silu", "hidden_size": 3072, "initializer_range": 0.02,
      "intermediate_size": 8192, "interpolate_factor": 1, "lm_head_bias": false, "max_position_embeddings": 131072,
      "mlp_bias": false, "model_type": "phi3", "num_attention_heads": 24, "num_hidden_layers": 32,
      "num_key_value_heads": 8, "original_max_position_embeddings": 4096, "pad_token_id": 199999,
      "partial_rotary_factor": 0.75, "resid_pdrop": 0.0, "rms_norm_eps": 1e-05, "rope_scaling": {"long_factor":
      [1, 1.118320672, 1.250641126, 1.398617824, 1.564103225, 1.74916897, 1.956131817, 2.187582649, 2.446418898,
      2.735880826, 3.059592084, 3.421605075, 3.826451687, 4.279200023, 4.785517845, 5.351743533, 5.984965424,
      6.693110555, 7.485043894, 8.370679318, 9.36110372, 10.4687158, 11.70738129, 13.09260651, 14.64173252,
      16.37415215, 18.31155283, 20.47818807, 22.90118105, 25.61086418, 28.64115884, 32.03, 32.1, 32.13, 32.23, 32.6,
      32.61, 32.64, 32.66, 32.7, 32.71, 32.93, 32.97, 33.28, 33.49, 33.5, 44.16, 47.77],
      "short_factor": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0,
      1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0,
      1.0, 1.0, 1.0, 1.0],
      "type": "longrope"}, "rope_theta": 10000.0, "sliding_window": 262144, "tie_word_embeddings": true,
      "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 200064})",
     3836021760},
    {"gpt-oss-20b",
     R"({"architectures": ["GptOssForCausalLM"], "attention_bias": true, "attention_dropout": 0.0, "eos_token_id":
      200002, "experts_per_token": 4, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2880,
      "initial_context_length": 4096, "initializer_range": 0.02, "intermediate_size": 2880, "layer_types":
      ["sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention",
      "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention",
      "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention",
      "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention",
      "sliding_attention", "full_attention", "sliding_attention", "full_attention"], "max_position_embeddings":
      131072, "model_type": "gpt_oss", "num_attention_heads": 64, "num_experts_per_tok": 4, "num_hidden_layers": 24,
      "num_key_value_heads": 8, "num_local_experts": 32, "output_router_logits": false, "pad_token_id": 199999,
      "quantization_config": {"modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
      "model.embed_tokens", "lm_head"], "quant_method": "mxfp4"}, "rms_norm_eps": 1e-05, "rope_scaling": {"beta_fast":
      32.0, "beta_slow": 1.0, "factor": 32.0, "original_max_position_embeddings": 4096, "rope_type": "yarn",
      "truncate": false}, "rope_theta": 150000, "router_aux_loss_coef": 0.9, "sliding_window": 128, "swiglu_limit":
      7.0, "tie_word_embeddings": false, "transformers_version": "4.55.0.dev0", "use_cache": true, "vocab_size":
      201088})",
     20914757184},
    {"gpt-oss-120b",
     R"({"architectures": ["GptOssForCausalLM"], "attention_bias": true, "attention_dropout": 0.0, "eos_token_id":
      200002, "experts_per_token": 4, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2880,
      "initial_context_length": 4096, "initializer_range": 0.02, "intermediate_size": 2880, "layer_types":
      ["sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention",
      "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention",
      "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention",
      "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention",
      "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention",
      "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention",
      "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention",
      "full_attention"], "max_position_embeddings": 131072, "model_type": "gpt_oss", "num_attention_heads": 64,
      "num_experts_per_tok": 4, "num_hidden_layers": 36, "num_key_value_heads": 8, "num_local_experts": 128,
      "output_router_logits": false, "pad_token_id": 199999, "quantization_config": {"modules_to_not_convert":
      ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"], "quant_method":
      "mxfp4"}, "rms_norm_eps": 1e-05, "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0,
      "original_max_position_embeddings": 4096, "rope_type": "yarn", "truncate": false}, "rope_theta": 150000,
      "router_aux_loss_coef": 0.9, "sliding_window": 128, "swiglu_limit": 7.0, "tie_word_embeddings": false,
      "transformers_version": "4.55.0.dev0", "use_cache": true, "vocab_size": 201088})",
     116829156672},
    {"Qwen3-Next-80B-A3B-Instruct", R"({"architectures": ["Qwen3NextForCausalLM"], "attention_bias": false,
      "attention_dropout": 0.0, "bos_token_id": 151643, "decoder_sparse_step": 1, "eos_token_id": 151645,
      "full_attention_interval": 4, "head_dim": 256, "hidden_act": "silu", "hidden_size": 2048,
      "initializer_range": 0.02, "intermediate_size": 5120, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
      "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_value_head_dim": 128,
      "max_position_embeddings": 262144, "mlp_only_layers": [], "model_type": "qwen3_next",
      "moe_intermediate_size": 512, "norm_topk_prob": true, "num_attention_heads": 16, "num_experts": 512,
      "num_experts_per_tok": 10, "num_hidden_layers": 48, "num_key_value_heads": 2, "output_router_logits": false,
      "partial_rotary_factor": 0.25, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 10000000,
      "router_aux_loss_coef": 0.001, "shared_expert_intermediate_size": 512, "tie_word_embeddings": false,
      "torch_dtype": "bfloat16", "use_cache": true, "use_sliding_window": false, "vocab_size": 151936})",
     79674391296},
    {"Qwen3.5-27B, text", R"({"architectures": ["Qwen3_5ForCausalLM"], "attention_bias": false,
      "attention_dropout": 0.0, "attn_output_gate": true, "dtype": "bfloat16", "eos_token_id": 248044,
      "full_attention_interval": 4, "head_dim": 256, "hidden_act": "silu", "hidden_size": 5120,
      "initializer_range": 0.02, "intermediate_size": 17408, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
      "linear_num_key_heads": 16, "linear_num_value_heads": 48, "linear_value_head_dim": 128,
      "mamba_ssm_dtype": "float32", "max_position_embeddings": 262144, "model_type": "qwen3_5_text",
      "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": false, "num_attention_heads": 24,
      "num_hidden_layers": 64, "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "rope_parameters": {
      "mrope_interleaved": true, "mrope_section": [11, 11, 10], "partial_rotary_factor": 0.25,
      "rope_theta": 10000000, "rope_type": "default"}, "tie_word_embeddings": false, "use_cache": true,
      "vocab_size": 248320})",
     26895998464},
    {"Qwen3.5-27B",
     R"({"architectures": ["Qwen3_5ForConditionalGeneration"], "image_token_id": 248056, "model_type": "qwen3_5",
      "text_config": {"attention_bias": false,
      "attention_dropout": 0.0, "attn_output_gate": true, "dtype": "bfloat16", "eos_token_id": 248044,
      "full_attention_interval": 4, "head_dim": 256, "hidden_act": "silu", "hidden_size": 5120,
      "initializer_range": 0.02, "intermediate_size": 17408, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
      "linear_num_key_heads": 16, "linear_num_value_heads": 48, "linear_value_head_dim": 128,
      "mamba_ssm_dtype": "float32", "max_position_embeddings": 262144, "model_type": "qwen3_5_text",
      "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": false, "num_attention_heads": 24,
      "num_hidden_layers": 64, "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "rope_parameters": {
      "mrope_interleaved": true, "mrope_section": [11, 11, 10], "partial_rotary_factor": 0.25,
      "rope_theta": 10000000, "rope_type": "default"}, "tie_word_embeddings": false, "use_cache": true,
      "vocab_size": 248320}, "tie_word_embeddings": false, "video_token_id": 248057,
      "vision_config": {"deepstack_visual_indexes": [], "depth": 27, "hidden_act": "gelu_pytorch_tanh", "hidden_size": 1152,
      "in_channels": 3, "initializer_range": 0.02, "intermediate_size": 4304, "model_type": "qwen3_5", "num_heads": 16,
      "num_position_embeddings": 2304, "out_hidden_size": 5120, "patch_size": 16, "spatial_merge_size": 2,
      "temporal_patch_size": 2}, "vision_end_token_id": 248054, "vision_start_token_id": 248053})",
     27356728560},
    {"Qwen3.5-35B-A3B, text", R"({"architectures": ["Qwen3_5MoeForCausalLM"], "attention_bias": false,
      "attention_dropout": 0.0, "attn_output_gate": true, "dtype": "bfloat16", "eos_token_id": 248044,
      "full_attention_interval": 4, "head_dim": 256, "hidden_act": "silu", "hidden_size": 2048,
      "initializer_range": 0.02, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16,
      "linear_num_value_heads": 32, "linear_value_head_dim": 128, "mamba_ssm_dtype": "float32",
      "max_position_embeddings": 262144, "mlp_only_layers": [], "model_type": "qwen3_5_moe_text",
      "moe_intermediate_size": 512, "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": false,
      "num_attention_heads": 16, "num_experts": 256, "num_experts_per_tok": 8, "num_hidden_layers": 40,
      "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_parameters": {"mrope_interleaved": true,
      "mrope_section": [11, 11, 10], "partial_rotary_factor": 0.25, "rope_theta": 10000000, "rope_type": "default"},
      "router_aux_loss_coef": 0.001, "shared_expert_intermediate_size": 512, "tie_word_embeddings": false,
      "use_cache": true, "vocab_size": 248320})",
     34660610688},
    {"InternLM2.5-7B",
     R"({"architectures": ["InternLM2ForCausalLM"], "attn_implementation": "eager", "auto_map": {"AutoConfig":
      "configuration_internlm2.InternLM2Config"}, "bias": false, "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
      "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 32768,
      "model_type": "internlm2", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
      "pad_token_id": 2, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 2.0, "type": "dynamic"},
      "rope_theta": 1000000, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_cache": true,
      "vocab_size": 92544})",
     7737708544},
    {"InternLM3-8B", R"({"architectures": ["InternLM3ForCausalLM"], "attention_dropout": 0.0, "auto_map": {"AutoConfig":
      "configuration_internlm3.InternLM3Config"}, "bias": false, "bos_token_id": 1, "eos_token_id": 2, "head_dim": 128,
      "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 10240,
      "max_position_embeddings": 32768, "model_type": "internlm3", "num_attention_heads": 32, "num_hidden_layers": 48,
      "num_key_value_heads": 2, "pad_token_id": 2, "qkv_bias": false, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 6.0,
      "rope_type": "dynamic"}, "rope_theta": 50000000, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
      "use_cache": true, "vocab_size": 128512})",
     8804241408},
    {"MiniCPM-2B", R"({"architectures": ["MiniCPMForCausalLM"], "auto_map": {"AutoConfig":
      "configuration_minicpm.MiniCPMConfig"}, "bos_token_id": 1, "dim_model_base": 256, "eos_token_id": 2, "hidden_act":
      "silu", "hidden_size": 2304, "initializer_range": 0.1, "intermediate_size": 5760, "max_position_embeddings": 4096,
      "model_type": "minicpm", "num_attention_heads": 36, "num_hidden_layers": 40, "num_key_value_heads": 36,
      "rms_norm_eps": 1e-05, "rope_scaling": null, "scale_depth": 1.4, "scale_emb": 12, "torch_dtype": "bfloat16",
      "use_cache": true, "vocab_size": 122753})",
     2724880896},
    {"MiniCPM3-4B",
     R"({"architectures": ["MiniCPM3ForCausalLM"], "bos_token_id": 1, "dim_model_base": 256, "eos_token_id": [2,
      73440], "hidden_act": "silu", "hidden_size": 2560, "initializer_range": 0.1, "intermediate_size": 6400,
      "kv_lora_rank": 256, "max_position_embeddings": 32768, "model_type": "minicpm3", "num_attention_heads": 40,
      "num_hidden_layers": 62, "num_key_value_heads": 40, "q_lora_rank": 768, "qk_nope_head_dim": 64,
      "qk_rope_head_dim": 32, "rms_norm_eps": 1e-05, "rope_scaling": {"long_factor": [1.0591234137867171, 1.1241891283591912, 1.2596935748670968,
      1.5380380402321725, 2.093982484148734, 3.1446935121267696, 4.937952647693647, 7.524541999994549,
      10.475458000005451, 13.062047352306353, 14.85530648787323, 15.906017515851266, 16.461961959767827,
      16.740306425132907, 16.87581087164081, 16.940876586213285],
      "original_max_position_embeddings": 32768, "short_factor": [1.0591234137867171, 1.1241891283591912, 1.2596935748670968,
      1.5380380402321725, 2.093982484148734, 3.1446935121267696, 4.937952647693647, 7.524541999994549,
      10.475458000005451, 13.062047352306353, 14.85530648787323, 15.906017515851266, 16.461961959767827,
      16.740306425132907, 16.87581087164081, 16.940876586213285],
      "type": "longrope"}, "scale_depth": 1.4, "scale_emb": 12, "torch_dtype": "bfloat16", "use_cache": true,
      "vocab_size": 73448})",
     4073875968},
    {"Baichuan2-7B", R"({"_from_model_config": true, "architectures": ["BaichuanForCausalLM"], "bos_token_id": 1,
      "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 11008,
      "max_position_embeddings": 4096, "model_max_length": 4096, "model_type": "baichuan", "num_attention_heads": 32,
      "num_hidden_layers": 32, "pad_token_id": 0, "rms_norm_eps": 1e-06, "tie_word_embeddings": false,
      "tokenizer_class": "BaichuanTokenizer", "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 125696,
      "z_loss_weight": 0})",
     7505973248},
};

int64_t CountParameters(const LayerGraph& graph) {
  int64_t count = 0;
  for (const Layer& layer : graph.layers) {
    for (const Parameter& parameter : ParametersOf(graph, layer, {})) {
      if (parameter.is_buffer) continue;
      for (const HfTensor& tensor : parameter.hf) count += tensor.box.elements();
    }
  }
  return count;
}

class ReleasedConfigs : public testing::TestWithParam<Released> {};

TEST_P(ReleasedConfigs, HaveTransformersParameters) {
  const LayerGraph graph = BuildGraph(HfConfig(ParseJson(GetParam().config, "config.json"), "config.json"));
  EXPECT_EQ(CountParameters(graph), GetParam().parameters);
}

INSTANTIATE_TEST_SUITE_P(All, ReleasedConfigs, testing::ValuesIn(kReleased), [](const auto& info) {
  std::string name = info.param.name;
  for (char& letter : name) letter = std::isalnum(static_cast<unsigned char>(letter)) != 0 ? letter : '_';
  return name;
});

}  // namespace
}  // namespace trireme
