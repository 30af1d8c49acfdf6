// Collectives on tensors, in the order of the computation: what is queued so far is in what is sent, and when
// a call returns (or a Pending was waited for), what follows may use the result. No autograd here; regions.h
// puts each beside its adjoint.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>
#include <vector>

#include "core/comm/communicator.h"

namespace trireme {

// In place; the tensor is contiguous.
void AllReduce(const at::Tensor& tensor, Communicator& group, ReduceOp op = ReduceOp::kSum);

// Dim 0 of all ranks, one after the other in the group's order.
at::Tensor AllGatherRows(const at::Tensor& rows, Communicator& group);

// One tensor to, or from, one rank of the group; contiguous. A send ends only when its receive is posted.
void Send(const at::Tensor& tensor, Communicator& group, int peer);
void Receive(const at::Tensor& tensor, Communicator& group, int peer);

// A collective under way. Keeps its tensors alive, which nobody touches until Wait(); a destructor waits,
// too.
class [[nodiscard]] Pending {
 public:
  Pending() = default;  // nothing under way
  Pending(Work work, std::vector<at::Tensor> tensors) : work_(work), tensors_(std::move(tensors)) {}
  ~Pending();
  Pending(Pending&& other) noexcept { *this = std::move(other); }
  Pending& operator=(Pending&& other) noexcept;  // onto one that is not under way

  bool under_way() const { return work_.has_value(); }
  bool done() const { return !work_ || work_->done(); }
  // What is computed from now on may use the result, and the tensors are let go: on a device what takes their
  // memory next is computed after that, too. Nothing where nothing is under way.
  void Wait();
  // The same, and the host has seen that no member failed.
  void WaitOnHost();

 private:
  std::optional<Work> work_;
  std::vector<at::Tensor> tensors_;
};

// The same, not waited for. Tensors are contiguous; source and target are different memory.
Pending StartAllReduce(const at::Tensor& tensor, Communicator& group, ReduceOp op = ReduceOp::kSum);
Pending StartAllGather(const at::Tensor& share, const at::Tensor& whole, Communicator& group);
Pending StartReduceScatter(const at::Tensor& whole, const at::Tensor& share, Communicator& group);

}  // namespace trireme
