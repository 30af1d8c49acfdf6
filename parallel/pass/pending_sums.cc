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

PendingSums::PendingSums(const PassResult& result, std::vector<std::string> names, bool speaks, const NamedSums& extra,
                         Communicator& world, at::Device device, const RankNumbers& numbers)
    : names_(std::move(names)) {
  const auto summed = static_cast<int64_t>(names_.size() + extra.size() + numbers.summed.size());
  const int64_t own = numbers.own.defined() ? numbers.own.numel() : 0;
  all_ = at::zeros({summed + own}, at::TensorOptions(at::kFloat).device(device));
  if (speaks) AddOwnSums(result, names_, all_);
  const auto add_name = [&](const std::string& name) {
    TRIREME_CHECK(std::ranges::count(names_, name) == 0) << "two sums are named " << name;
    names_.push_back(name);
    return all_[static_cast<int64_t>(names_.size()) - 1];
  };
  for (const auto& [name, value] : extra) {
    const at::Tensor sum = add_name(name);
    if (value != 0) sum.fill_(value);
  }
  for (const auto& [name, value] : numbers.summed) {
    const at::Tensor sum = add_name(name);
    if (value.defined()) sum.copy_(value);
  }
  if (own > 0) all_.narrow(0, summed, own).copy_(numbers.own);
  reduction_ = StartAllReduce(all_.narrow(0, 0, summed), world);
}

NamedSums PendingSums::Take() {
  reduction_.WaitOnHost();
  const at::Tensor host = DownloadComputed(all_);
  NamedSums sums;
  for (size_t i = 0; i < names_.size(); ++i) sums[names_[i]] = host.data_ptr<float>()[i];
  own_.assign(host.data_ptr<float>() + names_.size(), host.data_ptr<float>() + host.numel());
  return sums;
}

}  // namespace trireme
