// RowEnds: where the rows of each expert end, of rows sorted by expert: expert e has rows [end of e - 1, end of
// e). Known to the host, or only on the device, so that the host need not wait for what a router chose there;
// rows after the last end then belong to no expert.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace trireme {

class RowEnds {
 public:
  explicit RowEnds(std::vector<int64_t> ends);
  // ends: [experts] int64 on a device.
  explicit RowEnds(at::Tensor ends);

  int64_t experts() const { return experts_; }
  bool on_host() const { return on_host_; }
  // Waits for the device, once, if only it knows them.
  const std::vector<int64_t>& host() const;
  // [experts] int64; copied there at the first call.
  const at::Tensor& On(at::Device device) const;

 private:
  const int64_t experts_;
  const bool on_host_;
  mutable std::vector<int64_t> host_;
  mutable at::Tensor device_;
};

// Shared, because the backward pass needs them again.
using GroupEnds = std::shared_ptr<const RowEnds>;

}  // namespace trireme
