#include "models/padding_row.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "core/base/error.h"

namespace trireme {
namespace {

struct Default {
  std::string_view family;
  int64_t token;
};

// Of the families' config classes; those of the other families have none.
constexpr Default kDefaults[] = {
    {"baichuan", 0},       {"ernie4_5", 0},    {"ernie4_5_moe", 0}, {"exaone_moe", 0}, {"gemma", 0},
    {"gemma2", 0},         {"gemma3_text", 0}, {"glm", 151329},     {"glm4", 151329},  {"hunyuan_v1_dense", 0},
    {"hunyuan_v1_moe", 0}, {"internlm2", 0},   {"olmo2", 1},        {"olmo3", 1},      {"olmoe", 1},
    {"phi3", 32000},       {"seed_oss", 1},    {"smollm3", 128004},
};

int64_t DefaultOf(const std::string& family) {
  const auto* found = std::ranges::find(kDefaults, family, &Default::family);
  return found == std::end(kDefaults) ? kNoPadding : found->token;
}

}  // namespace

int64_t PaddingRow(const HfConfig& config, const std::string& family, int64_t vocabulary) {
  constexpr char kKey[] = "pad_token_id";
  if (config.IsNull(kKey)) return kNoPadding;
  if (!config.Has(kKey)) {
    const int64_t token = DefaultOf(family);
    return token < vocabulary ? token : kNoPadding;
  }
  const auto token = config.WholeNumber(kKey);
  if (!token || *token >= vocabulary || *token < -vocabulary) {
    throw InputError(config.source(), ": ", kKey, " is ", config.json().at(kKey).dump().substr(0, 60),
                     "; wanted a token of the vocabulary, which has ", vocabulary, " tokens (vocab_size), or null");
  }
  return *token < 0 ? *token + vocabulary : *token;
}

}  // namespace trireme
