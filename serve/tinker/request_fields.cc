#include "serve/tinker/request_fields.h"

#include <algorithm>
#include <climits>
#include <functional>

#include "core/base/error.h"
#include "net/secret.h"
#include "serve/fields.h"
#include "serve/tinker/loss_request.h"

namespace trireme::tinker {
namespace {

std::string SwitchText(bool attention, bool mlp) {
  const auto text = [](bool on) { return on ? "true" : "false"; };
  return Concat("train_attn=", text(attention), ", train_mlp=", text(mlp));
}

}  // namespace

std::string IdOf(Fields& fields, const std::string& name) {
  const auto id = fields.Text(name);
  if (!id) fields.Fail(name, "is missing");
  return *id;
}

int64_t SeqOf(Fields& fields, const std::string& name) {
  const auto seq = fields.Integer(name, 0, INT64_MAX);
  if (!seq) fields.Fail(name, "is missing");
  return *seq;
}

TrainedAdapters ReadAdapters(const Json* json, int64_t max_rank) {
  TrainedAdapters adapters{.seed = static_cast<uint64_t>(std::hash<std::string>()(net::RandomBytes(8)) >> 1)};
  if (json == nullptr)
    Refuse("lora_config: is missing; this server trains LoRA adapters, not full models (--train-full does)");
  Fields fields(*json, "lora_config");
  adapters.rank = fields.Integer("rank", 1, INT_MAX).value_or(32);
  if (adapters.rank > max_rank) {
    fields.Fail("rank", Concat(adapters.rank, " is beyond this server's ", max_rank,
                               "; ask for less, or start it with --train-max-rank"));
  }
  if (const auto seed = fields.Integer("seed", INT64_MIN, INT64_MAX))
    adapters.seed = static_cast<uint64_t>(*seed) & (UINT64_MAX >> 1);
  adapters.attention = fields.Switch("train_attn").value_or(true);
  adapters.mlp = fields.Switch("train_mlp").value_or(true);
  fields.Switch("train_unembed");  // said in every session's warning_message
  fields.Accept({"type"});
  fields.Finish();
  if (!adapters.attention && !adapters.mlp)
    Refuse("lora_config: neither train_attn nor train_mlp: nothing would be trained");
  return adapters;
}

TrainedAdapters ReadFull(const Json* lora) {
  TrainedAdapters asked;
  if (lora == nullptr) return asked;
  Fields fields(*lora, "lora_config");
  asked.rank = fields.Integer("rank", 1, INT_MAX).value_or(asked.rank);
  fields.Integer("seed", INT64_MIN, INT64_MAX);
  for (const char* part : {"train_attn", "train_mlp", "train_unembed"}) {
    if (!fields.Switch(part).value_or(true))
      fields.Fail(part, "false: this server trains all parameters (--train-full); leave it out");
  }
  fields.Accept({"type"});
  fields.Finish();
  return asked;
}

void CheckOptimizer(const Json* json) {
  if (json == nullptr) return;
  Fields fields(*json, "optimizer_config");
  const std::string type = fields.Text("type").value_or("adamw");
  if (type != "adamw") Refuse("optimizer_config.type: " + type.substr(0, 40) + " is not supported; wanted adamw");
  fields.Accept({"version"});
  fields.Finish();
}

AdamNumbers ReadAdam(Fields& request) {
  request.Refuse("optimizer_params", "is not supported; send adam_params");
  AdamNumbers adam;
  const Json* json = request.Find("adam_params");
  if (json == nullptr) return adam;
  Fields fields(*json, "adam_params");
  adam.learning_rate = fields.Number("learning_rate", 0, 1e6).value_or(adam.learning_rate);
  adam.beta1 = fields.Number("beta1", 0, 1).value_or(adam.beta1);
  adam.beta2 = fields.Number("beta2", 0, 1).value_or(adam.beta2);
  adam.eps = fields.Number("eps", 0, 1e6).value_or(adam.eps);
  adam.weight_decay = fields.Number("weight_decay", 0, 1e6).value_or(0);
  adam.grad_clip_norm = fields.Number("grad_clip_norm", 0, 1e30).value_or(0);
  if (adam.beta1 >= 1 || adam.beta2 >= 1) Refuse("adam_params: betas are below 1");
  fields.Accept({"type"});
  fields.Finish();
  return adam;
}

void CheckSwitches(const CheckpointRecord& record, const TrainedAdapters& adapters) {
  const bool attention = record.facts.value("train_attn", true), mlp = record.facts.value("train_mlp", true);
  if (attention == adapters.attention && mlp == adapters.mlp) return;
  Refuse(Concat(record.path.Text(), ": was trained with ", SwitchText(attention, mlp), ", the model has ",
                SwitchText(adapters.attention, adapters.mlp), "; create the model with the checkpoint's lora_config"));
}

Json LogprobsJson(const std::vector<std::vector<float>>& rows, const std::vector<int64_t>& columns) {
  Json outputs = Json::array();
  size_t row = 0;
  for (const int64_t k : columns) {
    Json data = Json::array(), shape = Json::array({rows[row].size()});
    for (size_t i = 0; i < rows[row].size(); ++i) {
      for (int64_t column = 0; column < std::max<int64_t>(k, 1); ++column)
        data.push_back(rows[row + static_cast<size_t>(column)][i]);
    }
    if (k > 0) shape.push_back(k);
    row += static_cast<size_t>(std::max<int64_t>(k, 1));
    outputs.push_back({{"logprobs", {{"data", std::move(data)}, {"dtype", "float32"}, {"shape", std::move(shape)}}}});
  }
  return outputs;
}

}  // namespace trireme::tinker
