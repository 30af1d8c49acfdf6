#include "session/exchange_sizes.h"

#include <string>

#include "core/base/error.h"
#include "stages/stage.h"

namespace trireme {
namespace {

// Empty if sizes can be expected; otherwise the reason, and what to do.
std::string WhyExact(const Config& config) {
  const ExpertsConfig& experts = config.experts();
  if (FactsOf(config).method != MethodKind::kTokens) {
    return "a step of this stage waits for its numbers anyway; leave it out, or choose stage pt or sft";
  }
  if (experts.dispatch() == DISPATCH_ALL_GATHER) {
    return "experts.dispatch all_gather sends every token to every rank; choose all_to_all";
  }
  if (experts.overflow() == OVERFLOW_PAD) {
    return "experts.overflow pad sizes every expert by the batch's tokens; choose keep or drop";
  }
  return "";
}

}  // namespace

bool ExpectsExchange(const Config& config, bool npu) {
  const ParallelConfig& parallel = config.parallel();
  if (parallel.expert() * parallel.expert_tensor() == 1 || !WhyExact(config).empty()) return false;
  const ExchangeSizes sizes = config.experts().exchange();
  return sizes == EXCHANGE_EXPECTED || (sizes == EXCHANGE_AUTO && npu);
}

void CheckExchange(const Config& config) {
  const std::string why = WhyExact(config);
  if (config.experts().exchange() != EXCHANGE_EXPECTED || why.empty()) return;
  throw InputError("experts.exchange expected: ", why);
}

}  // namespace trireme
