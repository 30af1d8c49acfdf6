#include "parallel/context/ulysses.h"

#include <ATen/ATen.h>

#include <numeric>

#include "core/base/error.h"
#include "core/tensor/dtype.h"
#include "ops/weight_gradients.h"
#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

// message: [U, elements], one line per adjacent rank; the result likewise, one line from each.
at::Tensor ExchangeLines(const at::Tensor& message, const ContextParallel& parallel) {
  const auto line = static_cast<uint64_t>(message.size(1));
  const int first = parallel.split().ring_rank() * parallel.ulysses;
  Parts parts{std::vector<uint64_t>(parallel.group.size(), 0), std::vector<uint64_t>(parallel.group.size(), 0)};
  for (int i = 0; i < parallel.ulysses; ++i) {
    parts.counts[first + i] = line;
    parts.offsets[first + i] = line * static_cast<uint64_t>(i);
  }
  const at::Tensor arrived = at::empty_like(message);
  Pending pending(
      parallel.group.AllToAllV(message.data_ptr(), parts, arrived.data_ptr(), parts, FromTorch(message.scalar_type())),
      {message, arrived});
  WeightGradients::RunQueued();
  pending.Wait();
  return arrived;
}

// Cuts dim `cut` of each tensor into U parts, one per adjacent rank, and concatenates what they send along
// dim `join`.
std::vector<at::Tensor> Exchange(const std::vector<at::Tensor>& tensors, int64_t cut, int64_t join,
                                 const ContextParallel& parallel) {
  if (parallel.ulysses == 1) return tensors;
  const int64_t ranks = parallel.ulysses;
  std::vector<at::Tensor> lines;
  std::vector<std::vector<int64_t>> shapes;
  for (const at::Tensor& tensor : tensors) {
    TRIREME_CHECK(tensor.size(cut) % ranks == 0)
        << "size " << tensor.size(cut) << " is not divisible by " << ranks << " ranks";
    const at::Tensor parts = at::stack(tensor.chunk(ranks, cut));  // [U, …]
    shapes.push_back(parts.sizes().vec());
    lines.push_back(parts.view({ranks, -1}));
  }
  const at::Tensor arrived = ExchangeLines(lines.size() == 1 ? lines[0] : at::cat(lines, 1), parallel);
  std::vector<at::Tensor> results;
  int64_t begin = 0;
  for (const std::vector<int64_t>& shape : shapes) {
    const int64_t size = c10::multiply_integers(shape) / ranks;
    const at::Tensor parts = arrived.narrow(1, begin, size).reshape(shape);
    results.push_back(at::cat(parts.unbind(0), join));
    begin += size;
  }
  return results;
}

}  // namespace

std::vector<at::Tensor> HeadsForTokens(const std::vector<at::Tensor>& tensors, const ContextParallel& parallel) {
  return Exchange(tensors, 1, 2, parallel);
}

std::vector<at::Tensor> TokensForHeads(const std::vector<at::Tensor>& tensors, const ContextParallel& parallel) {
  return Exchange(tensors, 2, 1, parallel);
}

HeadCopies::HeadCopies(const Heads& heads, const ContextParallel& parallel)
    : kv_heads(heads.query.size(1)),
      group(heads.query.size(3)),
      copies(parallel.ulysses / std::gcd<int64_t>(kv_heads, parallel.ulysses)) {
  TRIREME_CHECK(group % copies == 0) << kv_heads * group << " heads cannot be split over " << parallel.ulysses
                                     << " Ulysses ranks";
}

at::Tensor HeadCopies::SplitQuery(const at::Tensor& query) const {
  if (copies == 1) return query;
  const auto size = query.sizes();
  return query.reshape({size[0], size[1], size[2], copies, size[3] / copies, size[4]})
      .transpose(2, 3)
      .flatten(1, 2)
      .contiguous();
}

at::Tensor HeadCopies::JoinQuery(const at::Tensor& query) const {
  if (copies == 1) return query;
  const auto size = query.sizes();
  return query.reshape({size[0], kv_heads, copies, size[2], size[3], size[4]})
      .transpose(2, 3)
      .flatten(3, 4)
      .contiguous();
}

at::Tensor HeadCopies::Repeat(const at::Tensor& key) const {
  return copies == 1 ? key : key.repeat_interleave(copies, 1);
}

at::Tensor HeadCopies::Sum(const at::Tensor& key) const {
  return copies == 1 ? key : key.unflatten(1, {kv_heads, copies}).sum(2);
}

}  // namespace trireme
