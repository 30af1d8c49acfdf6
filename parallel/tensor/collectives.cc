#include "parallel/tensor/collectives.h"

#include "core/base/error.h"
#include "core/tensor/dtype.h"

namespace trireme {

void AllReduce(const at::Tensor& tensor, Communicator& group, ReduceOp op) {
  TRIREME_CHECK(tensor.is_contiguous()) << "all-reduce of a tensor with gaps";
  group
      .AllReduce(tensor.data_ptr(), tensor.data_ptr(), static_cast<size_t>(tensor.numel()),
                 FromTorch(tensor.scalar_type()), op)
      .Wait();
}

at::Tensor AllGatherRows(const at::Tensor& rows, Communicator& group) {
  const at::Tensor source = rows.contiguous();
  std::vector<int64_t> shape = source.sizes().vec();
  shape[0] *= group.size();
  at::Tensor gathered = at::empty(shape, source.options());
  group
      .AllGather(source.data_ptr(), gathered.data_ptr(), static_cast<size_t>(source.numel()),
                 FromTorch(source.scalar_type()))
      .Wait();
  return gathered;
}

at::Tensor ReduceScatterRows(const at::Tensor& rows, Communicator& group) {
  const at::Tensor source = rows.contiguous();
  std::vector<int64_t> shape = source.sizes().vec();
  TRIREME_CHECK(shape[0] % group.size() == 0)
      << shape[0] << " rows over " << group.size() << " ranks of " << group.name();
  shape[0] /= group.size();
  at::Tensor mine = at::empty(shape, source.options());
  group
      .ReduceScatter(source.data_ptr(), mine.data_ptr(), static_cast<size_t>(mine.numel()),
                     FromTorch(source.scalar_type()), ReduceOp::kSum)
      .Wait();
  return mine;
}

}  // namespace trireme
