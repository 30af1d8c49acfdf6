#include "ops/grouped_linear/row_ends.h"

#include <ATen/ops/tensor.h>

#include <utility>

#include "core/tensor/device_copies.h"

namespace trireme {

RowEnds::RowEnds(std::vector<int64_t> ends)
    : experts_(static_cast<int64_t>(ends.size())), on_host_(true), host_(std::move(ends)) {}

RowEnds::RowEnds(at::Tensor ends) : experts_(ends.numel()), on_host_(false), device_(std::move(ends)) {}

const std::vector<int64_t>& RowEnds::host() const {
  if (!on_host_ && host_.empty()) {
    const at::Tensor copy = device_.to(at::kCPU).contiguous();
    host_.assign(copy.data_ptr<int64_t>(), copy.data_ptr<int64_t>() + copy.numel());
  }
  return host_;
}

const at::Tensor& RowEnds::On(at::Device device) const {
  if (!device_.defined()) device_ = Upload(at::tensor(host_, at::kLong), device);
  return device_;
}

}  // namespace trireme
