#include "checkpoint/megatron/written_arguments.h"

#include <utility>
#include <vector>

#include "checkpoint/megatron/layer_numbers.h"
#include "checkpoint/pickle/pickled.h"
#include "checkpoint/pickle/torch_writer.h"

namespace trireme {
namespace {

// Collects names and values; what config.json does not have is None.
class ArgumentList {
 public:
  ArgumentList(const WrittenModel& model, const MegatronExport& options) : model_(model), options_(options) {}

  std::string Pickled() {
    AddShape();
    AddAttention();
    AddRotary();
    if (model_.experts() > 0) AddExperts();
    if (model_.names().latent()) AddLatent();
    AddLayout();
    return PickledObject(PickledGlobal("argparse", "Namespace"), PickledDict(items_));
  }

 private:
  void Add(const char* name, std::string value) { items_.emplace_back(PickledText(name), std::move(value)); }
  void AddInt(const char* name, int64_t value) { Add(name, PickledInt(value)); }
  void AddBool(const char* name, bool value) { Add(name, PickledBool(value)); }
  void AddText(const char* name, const char* value) { Add(name, PickledText(value)); }
  // One of config.json's keys, as Megatron's of another name.
  void Copy(const char* name, const char* key) { Add(name, Value(model_.config(), key)); }

  static std::string Value(const Json& object, const char* key) {
    if (!object.is_object() || !object.contains(key)) return PickledNone();
    const Json& value = object[key];
    if (value.is_boolean()) return PickledBool(value.get<bool>());
    if (value.is_number_integer()) return PickledInt(value.get<int64_t>());
    if (value.is_number()) return PickledFloat(value.get<double>());
    return value.is_string() ? PickledText(value.get<std::string>()) : PickledNone();
  }
  int64_t Integer(const char* key, int64_t otherwise) const {
    const Json& config = model_.config();
    return config.contains(key) && config[key].is_number_integer() ? config[key].get<int64_t>() : otherwise;
  }
  bool IsTrue(const char* key) const { return model_.config().contains(key) && model_.config()[key] == true; }
  bool Has(const char* tensor) const {
    for (const WrittenTensor& one : model_.tensors()) {
      if (one.name.ends_with(tensor)) return true;
    }
    return false;
  }
  const Json& Rotary() const {  // by the two ways in which config.json has it
    static const Json none = Json::object();
    for (const char* key : {"rope_parameters", "rope_scaling"}) {
      if (model_.config().contains(key) && model_.config()[key].is_object()) return model_.config()[key];
    }
    return none;
  }

  void AddShape();
  void AddAttention();
  void AddRotary();
  void AddExperts();
  void AddLatent();
  void AddLayout();

  const WrittenModel& model_;
  const MegatronExport& options_;
  std::vector<std::pair<std::string, std::string>> items_;
};

void ArgumentList::AddShape() {
  AddInt("num_layers", model_.names().layers());
  Copy("hidden_size", "hidden_size");
  Copy("ffn_hidden_size", "intermediate_size");
  Copy("max_position_embeddings", "max_position_embeddings");
  Copy("norm_epsilon", "rms_norm_eps");
  AddText("normalization", "RMSNorm");
  AddBool("apply_layernorm_1p", false);
  AddBool("swiglu", true);
  AddBool("add_bias_linear", Has(".mlp.linear_fc2.bias"));
  AddBool("add_dense_bias", Has(".linear_proj.bias"));
  AddBool("add_qkv_bias", Has(".linear_qkv.bias"));
  AddBool("untie_embeddings_and_output_weights", !model_.names().tied());
  AddInt("vocab_size", model_.names().vocabulary());
  AddInt("padded_vocab_size", model_.Find("embedding.word_embeddings.weight")->shape[0]);
  AddInt("make_vocab_size_divisible_by", options_.vocabulary_divisor);
  Add("mtp_num_layers", model_.mtp_layers() > 0 ? PickledInt(model_.mtp_layers()) : PickledNone());
  Add("num_experts", model_.experts() > 0 ? PickledInt(model_.experts()) : PickledNone());
  Add("params_dtype", PickledType(model_.tensors().front().dtype));
}

void ArgumentList::AddAttention() {
  const int64_t heads = model_.names().heads();
  AddInt("num_attention_heads", heads);
  AddBool("group_query_attention", model_.names().groups() != heads);
  AddInt("num_query_groups", model_.names().groups());
  AddInt("kv_channels", Integer("head_dim", Integer("hidden_size", heads) / heads));
  AddBool("qk_layernorm", Has(".q_layernorm.weight") || Has(".kv_layernorm.weight"));
  AddBool("multi_latent_attention", model_.names().latent());
}

void ArgumentList::AddRotary() {
  const Json& rotary = Rotary();
  const auto either = [&](const char* key) {
    return rotary.contains(key) ? Value(rotary, key) : Value(model_.config(), key);
  };
  const auto or_one = [&](const char* key, double otherwise) {
    std::string value = either(key);
    return value == PickledNone() ? PickledFloat(otherwise) : value;
  };
  AddText("position_embedding_type", "rope");
  AddBool("use_rotary_position_embeddings", true);
  AddBool("rotary_interleaved", false);
  Add("rotary_base", or_one("rope_theta", 10000));
  Add("rotary_percent", or_one("partial_rotary_factor", 1));
  const Json kind = rotary.contains("rope_type") ? rotary["rope_type"] : rotary.value("type", Json("default"));
  AddBool("use_rope_scaling", kind == "llama3");
  if (kind == "llama3") Add("rope_scaling_factor", Value(rotary, "factor"));
  if (kind != "yarn") return AddText("rope_type", "rope");
  AddText("rope_type", "yarn");
  Add("rotary_scaling_factor", Value(rotary, "factor"));
  for (const char* key : {"original_max_position_embeddings", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"})
    Add(key, Value(rotary, key));
}

void ArgumentList::AddExperts() {
  const int64_t ffn = Integer("moe_intermediate_size", Integer("intermediate_size", 0));
  const bool sigmoid =
      model_.config().value("scoring_func", Json("softmax")) == "sigmoid" || model_.names().family() == "glm4_moe";
  Copy("moe_router_topk", "num_experts_per_tok");
  AddInt("moe_ffn_hidden_size", ffn);
  AddBool("moe_grouped_gemm", options_.transformer_engine);
  AddText("moe_router_score_function", sigmoid ? "sigmoid" : "softmax");
  AddBool("moe_router_enable_expert_bias", Has(".mlp.router.expert_bias"));
  AddBool("moe_router_pre_softmax",
          !sigmoid && model_.config().contains("norm_topk_prob") && !IsTrue("norm_topk_prob"));
  Copy("moe_router_topk_scaling_factor", "routed_scaling_factor");
  Copy("moe_router_num_groups", "n_group");
  Copy("moe_router_group_topk", "topk_group");
  std::vector<std::string> pattern;
  bool all = true;
  for (int64_t layer = 0; layer < model_.names().layers(); ++layer) {
    pattern.push_back(PickledInt(model_.HasExperts(layer) ? 1 : 0));
    all = all && model_.HasExperts(layer);
  }
  Add("moe_layer_freq", all ? PickledInt(1) : PickledList(pattern));
  for (const WrittenTensor& tensor : model_.tensors()) {
    if (!tensor.name.ends_with(".shared_experts.linear_fc2.weight")) continue;
    AddInt("moe_shared_expert_intermediate_size", tensor.shape[1]);
    AddBool("moe_shared_expert_gate", Has(".shared_experts.gate_weight"));
    break;
  }
}

void ArgumentList::AddLatent() {
  Copy("q_lora_rank", "q_lora_rank");
  Copy("kv_lora_rank", "kv_lora_rank");
  Copy("qk_head_dim", "qk_nope_head_dim");
  Copy("qk_pos_emb_head_dim", "qk_rope_head_dim");
  Copy("v_head_dim", "v_head_dim");
}

void ArgumentList::AddLayout() {
  const MegatronLayout& layout = options_.layout;
  const std::vector<int64_t>& stages = options_.stage_layers;
  AddInt("tensor_model_parallel_size", layout.tensor);
  AddInt("pipeline_model_parallel_size", layout.pipeline);
  const bool chunked = options_.virtual_stages > 1;
  Add("virtual_pipeline_model_parallel_size", chunked ? PickledInt(options_.virtual_stages) : PickledNone());
  const bool uneven = stages.size() > 1;
  Add("decoder_first_pipeline_num_layers", uneven ? PickledInt(stages.front()) : PickledNone());
  Add("decoder_last_pipeline_num_layers", uneven ? PickledInt(stages.back()) : PickledNone());
  AddInt("expert_model_parallel_size", layout.expert);
  AddInt("expert_tensor_parallel_size", layout.expert_tensor);
  AddInt("context_parallel_size", 1);
  AddText("transformer_impl", options_.transformer_engine ? "transformer_engine" : "local");
  AddText("ckpt_format", options_.format == MegatronExport::Format::kTorch ? "torch" : "torch_dist");
  AddBool("no_save_optim", true);
  AddBool("no_save_rng", true);
  AddInt("iteration", 0);
  AddInt("consumed_train_samples", 0);
}

}  // namespace

std::string PickledArguments(const WrittenModel& model, const MegatronExport& options) {
  return ArgumentList(model, options).Pickled();
}

}  // namespace trireme
