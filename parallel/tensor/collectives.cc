#include "parallel/tensor/collectives.h"

#include <ATen/ops/empty.h>

#include <exception>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/tensor/dtype.h"

namespace trireme {
namespace {

void CheckShare(const char* operation, const at::Tensor& share, const at::Tensor& whole, const Communicator& group) {
  TRIREME_CHECK(share.is_contiguous() && whole.is_contiguous()) << operation << " of a non-contiguous tensor";
  TRIREME_CHECK(share.scalar_type() == whole.scalar_type() && share.numel() * group.size() == whole.numel())
      << operation << " of " << share.numel() << " elements per rank and " << whole.numel() << " in total over "
      << group.size() << " ranks of " << group.name();
}

}  // namespace

Pending& Pending::operator=(Pending&& other) noexcept {
  TRIREME_CHECK(!under_way()) << "a collective in flight would be dropped";
  work_ = std::exchange(other.work_, std::nullopt);
  tensors_ = std::exchange(other.tensors_, {});
  return *this;
}

Pending::~Pending() {
  try {
    if (std::uncaught_exceptions() == 0) Wait();
  } catch (const Error& error) {
    TRIREME_LOG(WARNING) << "a collective that was never waited for failed: " << error.what();
  }
  if (tensors_.empty()) return;
  // The call may still write into its tensors, and the process is about to end: leak them.
  static_cast<void>(new std::vector<at::Tensor>(std::move(tensors_)));
}

void Pending::WaitOnHost() {
  if (work_) work_->Wait();
  Wait();
}

void Pending::Wait() {
  if (work_) work_->Join();
  work_.reset();
  tensors_.clear();
}

Pending StartAllReduce(const at::Tensor& tensor, Communicator& group, ReduceOp op) {
  TRIREME_CHECK(tensor.is_contiguous()) << "all-reduce of a non-contiguous tensor";
  return {group.AllReduce(tensor.data_ptr(), tensor.data_ptr(), static_cast<size_t>(tensor.numel()),
                          FromTorch(tensor.scalar_type()), op),
          {tensor}};
}

Pending StartAllGather(const at::Tensor& share, const at::Tensor& whole, Communicator& group) {
  CheckShare("all-gather", share, whole, group);
  return {group.AllGather(share.data_ptr(), whole.data_ptr(), static_cast<size_t>(share.numel()),
                          FromTorch(share.scalar_type())),
          {share, whole}};
}

Pending StartReduceScatter(const at::Tensor& whole, const at::Tensor& share, Communicator& group) {
  CheckShare("reduce-scatter", share, whole, group);
  return {group.ReduceScatter(whole.data_ptr(), share.data_ptr(), static_cast<size_t>(share.numel()),
                              FromTorch(whole.scalar_type()), ReduceOp::kSum),
          {whole, share}};
}

void AllReduce(const at::Tensor& tensor, Communicator& group, ReduceOp op) { StartAllReduce(tensor, group, op).Wait(); }

void Send(const at::Tensor& tensor, Communicator& group, int peer) {
  const at::Tensor source = tensor.contiguous();
  Pending(group.Send(source.data_ptr(), static_cast<size_t>(source.numel()), FromTorch(source.scalar_type()), peer),
          {source})
      .Wait();
}

void Receive(const at::Tensor& tensor, Communicator& group, int peer) {
  TRIREME_CHECK(tensor.is_contiguous()) << "receive into a non-contiguous tensor";
  Pending(group.Receive(tensor.data_ptr(), static_cast<size_t>(tensor.numel()), FromTorch(tensor.scalar_type()), peer),
          {tensor})
      .Wait();
}

at::Tensor AllGatherRows(const at::Tensor& rows, Communicator& group) {
  const at::Tensor source = rows.contiguous();
  if (group.size() == 1) return source;
  std::vector<int64_t> shape = source.sizes().vec();
  shape[0] *= group.size();
  at::Tensor gathered = at::empty(shape, source.options());
  StartAllGather(source, gathered, group).Wait();
  return gathered;
}

}  // namespace trireme
