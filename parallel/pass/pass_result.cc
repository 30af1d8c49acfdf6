#include "parallel/pass/pass_result.h"

#include <ATen/ops/zeros.h>

#include "core/base/error.h"
#include "parallel/tensor/collectives.h"

namespace trireme {

void PassOutput::Add(const std::string& name, const at::Tensor& value) {
  at::Tensor& sum = sums[name];
  sum = sum.defined() ? sum + value : value;
}

NamedSums PassResult::ReduceSums(const std::vector<std::string>& names, bool speaks, const NamedSums& extra,
                                 Communicator& world, at::Device device) const {
  const auto count = static_cast<int64_t>(names.size() + extra.size());
  const at::Tensor all = at::zeros({count}, at::TensorOptions(at::kFloat).device(device));
  for (size_t i = 0; i < names.size() && speaks; ++i) {
    for (const PassOutput& output : outputs) {
      const auto found = output.sums.find(names[i]);
      if (found != output.sums.end()) all[static_cast<int64_t>(i)].add_(found->second);
    }
  }
  int64_t position = static_cast<int64_t>(names.size());
  for (const auto& [name, value] : extra) {
    if (value != 0) all[position].fill_(value);
    ++position;
  }
  StartAllReduce(all, world).WaitOnHost();
  const at::Tensor host = all.to(at::kCPU);
  const float* number = host.data_ptr<float>();
  NamedSums sums;
  for (const std::string& name : names) sums[name] = *number++;
  for (const auto& [name, value] : extra) {
    TRIREME_CHECK(!sums.contains(name)) << "two sums are named " << name;
    sums[name] = *number++;
  }
  return sums;
}

}  // namespace trireme
