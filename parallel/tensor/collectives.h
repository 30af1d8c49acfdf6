// Collectives on tensors, in stream order: what is queued before a call is included in what it sends, and
// after it returns (or its Pending was waited for), later work may use the result. No autograd here;
// regions.h puts each beside its adjoint.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>
#include <vector>

#include "core/comm/communicator.h"

namespace trireme {

// In place; the tensor must be contiguous.
void AllReduce(const at::Tensor& tensor, Communicator& group, ReduceOp op = ReduceOp::kSum);

// Concatenates dim 0 of all ranks, in the group's order.
at::Tensor AllGatherRows(const at::Tensor& rows, Communicator& group);

// Sends one tensor to, or receives it from, one rank of the group; contiguous. A send ends only when its
// receive is posted.
void Send(const at::Tensor& tensor, Communicator& group, int peer);
void Receive(const at::Tensor& tensor, Communicator& group, int peer);

// A collective in flight. Keeps its tensors alive; nothing may touch them until Wait(). The destructor also
// waits.
class [[nodiscard]] Pending {
 public:
  Pending() = default;  // nothing in flight
  Pending(Work work, std::vector<at::Tensor> tensors) : work_(work), tensors_(std::move(tensors)) {}
  ~Pending();
  Pending(Pending&& other) noexcept { *this = std::move(other); }
  Pending& operator=(Pending&& other) noexcept;  // the target must not be in flight

  bool under_way() const { return work_.has_value(); }
  bool done() const { return !work_ || work_->done(); }
  // Work queued from now on may use the result, and the tensors are released: on a device, whatever reuses
  // their memory is ordered after the collective as well. A no-op if nothing is in flight.
  void Wait();
  // The same, and the host has checked that no member failed.
  void WaitOnHost();

 private:
  std::optional<Work> work_;
  std::vector<at::Tensor> tensors_;
};

// Asynchronous variants. Tensors are contiguous; source and target are separate memory.
Pending StartAllReduce(const at::Tensor& tensor, Communicator& group, ReduceOp op = ReduceOp::kSum);
Pending StartAllGather(const at::Tensor& share, const at::Tensor& whole, Communicator& group);
Pending StartReduceScatter(const at::Tensor& whole, const at::Tensor& share, Communicator& group);

}  // namespace trireme
