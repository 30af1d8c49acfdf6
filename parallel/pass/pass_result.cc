#include "parallel/pass/pass_result.h"

#include <ATen/ops/add.h>

#include "parallel/pass/pending_sums.h"

namespace trireme {

void PassOutput::Add(const std::string& name, const at::Tensor& value) {
  at::Tensor& sum = sums[name];
  sum = sum.defined() ? sum + value : value;
}

NamedSums PassResult::ReduceSums(const std::vector<std::string>& names, bool speaks, const NamedSums& extra,
                                 Communicator& world, at::Device device) const {
  return PendingSums(*this, names, speaks, extra, world, device).Take();
}

}  // namespace trireme
