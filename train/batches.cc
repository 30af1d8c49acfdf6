#include "train/batches.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <span>

namespace trireme {
namespace {

MicroBatch MakeMicroBatch(std::span<const Row> rows, int64_t slots, int64_t multiple, double loss_scale) {
  int64_t length = 1;
  for (const Row& row : rows) length = std::max<int64_t>(length, static_cast<int64_t>(row.input_ids.size()));
  length = (length + multiple - 1) / multiple * multiple;
  MicroBatch batch{.rows = slots, .length = length, .loss_scale = loss_scale};
  batch.tokens = at::zeros({slots * length}, at::kLong);
  batch.labels = at::full({slots * length}, kNotTrained, at::kLong);
  batch.positions = at::arange(length, at::kLong).repeat({slots});
  auto* tokens = batch.tokens.data_ptr<int64_t>();
  auto* labels = batch.labels.data_ptr<int64_t>();
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const int64_t begin = static_cast<int64_t>(i) * length;
    std::copy(row.input_ids.begin(), row.input_ids.end(), tokens + begin);
    // The label of a place is the token after it.
    std::copy(row.labels.begin() + 1, row.labels.end(), labels + begin);
    batch.documents.push_back({begin, begin + static_cast<int64_t>(row.input_ids.size())});
  }
  return batch;
}

}  // namespace

std::vector<MicroBatch> MakeMicroBatches(const std::vector<Row>& rows, const BatchShape& shape) {
  const auto total = static_cast<int64_t>(rows.size());
  const int64_t a_round = int64_t{shape.micro_batch} * shape.data_size;
  const int64_t trained = TrainedTokens(rows);
  const double loss_scale = trained > 0 ? 1.0 / static_cast<double>(trained) : 0.0;
  std::vector<MicroBatch> batches;
  for (int64_t first = 0; first < total; first += a_round) {
    const int64_t begin = std::min(first + int64_t{shape.data_rank} * shape.micro_batch, total);
    const int64_t count = std::min<int64_t>(shape.micro_batch, total - begin);
    batches.push_back(
        MakeMicroBatch(std::span(rows).subspan(begin, count), shape.micro_batch, shape.multiple, loss_scale));
    for (at::Tensor* tensor : {&batches.back().tokens, &batches.back().labels, &batches.back().positions}) {
      *tensor = tensor->to(shape.device);
    }
  }
  return batches;
}

}  // namespace trireme
