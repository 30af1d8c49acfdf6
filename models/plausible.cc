#include "models/plausible.h"

#include <algorithm>

#include "core/base/error.h"

namespace trireme {
namespace {

struct Limit {
  const char* key;
  int64_t most;
};

// Each at least ten times the largest published model.
constexpr Limit kLimits[] = {
    {"num_hidden_layers", 4096},        {"depth", 4096},
    {"num_nextn_predict_layers", 64},   {"num_experts", 32768},
    {"num_local_experts", 32768},       {"moe_num_experts", 32768},
    {"n_routed_experts", 32768},        {"n_shared_experts", 32768},
    {"num_attention_heads", 65536},     {"num_heads", 65536},
    {"num_key_value_heads", 65536},     {"head_dim", 1 << 20},
    {"hidden_size", 1 << 22},           {"intermediate_size", 1 << 24},
    {"moe_intermediate_size", 1 << 24}, {"vocab_size", 1 << 26},
    {"num_shared_experts", 32768},
};
// Over all layers: each expert has its own tensors.
constexpr int64_t kMostExperts = 1 << 19;

void Refuse(const HfConfig& config, const char* key, int64_t value, int64_t most) {
  throw InputError(config.source(), ": ", key, " is ", value, ", more than any known model has; the limit is ", most);
}

}  // namespace

void CheckPlausible(const HfConfig& config) {
  for (const Limit& limit : kLimits) {
    const int64_t value = config.WholeNumber(limit.key).value_or(0);
    if (value > limit.most) Refuse(config, limit.key, value, limit.most);
  }
  const int64_t layers = config.WholeNumber("num_hidden_layers").value_or(1);
  for (const char* key : {"num_experts", "num_local_experts", "moe_num_experts", "n_routed_experts"}) {
    const int64_t experts = config.WholeNumber(key).value_or(0);
    if (layers > 0 && experts > kMostExperts / layers) Refuse(config, key, experts, kMostExperts / layers);
  }
}

}  // namespace trireme
