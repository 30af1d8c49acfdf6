#include "parallel/pass/pending_sums.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/tensor/device_copies.h"

namespace trireme {
namespace {

// Adds this rank's sums to those of `all`.
void AddOwnSums(const PassResult& result, const std::vector<std::string>& names, const at::Tensor& all) {
  for (size_t i = 0; i < names.size(); ++i) {
    for (const PassOutput& output : result.outputs) {
      const auto found = output.sums.find(names[i]);
      if (found != output.sums.end()) all[static_cast<int64_t>(i)].add_(found->second);
    }
  }
}

}  // namespace

PendingSums::PendingSums(const PassResult& result, std::vector<std::string> names, bool speaks,
                         const NamedSums& extra, Communicator& world, at::Device device)
    : names_(std::move(names)),
      all_(at::zeros({static_cast<int64_t>(names_.size() + extra.size())},
                     at::TensorOptions(at::kFloat).device(device))) {
  if (speaks) AddOwnSums(result, names_, all_);
  for (const auto& [name, value] : extra) {
    TRIREME_CHECK(std::ranges::count(names_, name) == 0) << "two sums are named " << name;
    if (value != 0) all_[static_cast<int64_t>(names_.size())].fill_(value);
    names_.push_back(name);
  }
  reduction_ = StartAllReduce(all_, world);
}

NamedSums PendingSums::Take() {
  reduction_.WaitOnHost();
  const at::Tensor host = DownloadComputed(all_);
  NamedSums sums;
  for (size_t i = 0; i < names_.size(); ++i) sums[names_[i]] = host.data_ptr<float>()[i];
  return sums;
}

}  // namespace trireme
