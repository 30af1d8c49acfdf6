#include "train/batches.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/full.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>

namespace trireme {
namespace {

// All tokens of the rows, before context ranks take their shares.
struct WholeRows {
  int64_t rows, length;
  at::Tensor tokens, labels, positions, real, sequence;  // [rows · length]
  std::vector<Document> documents;

  WholeRows(int64_t rows, int64_t length) : rows(rows), length(length) {
    tokens = at::zeros({rows * length}, at::kLong);
    labels = at::full({rows * length}, kNotTrained, at::kLong);
    positions = at::arange(length, at::kLong).repeat({rows});
    real = at::zeros({rows * length}, at::kBool);
    sequence = at::full({rows * length}, -1, at::kLong);
  }

  void Fill(int64_t index, const Row& row) {
    const int64_t begin = index * length, end = begin + static_cast<int64_t>(row.input_ids.size());
    std::copy(row.input_ids.begin(), row.input_ids.end(), tokens.data_ptr<int64_t>() + begin);
    // The label of a place is the token after it.
    std::copy(row.labels.begin() + 1, row.labels.end(), labels.data_ptr<int64_t>() + begin);
    real.narrow(0, begin, end - begin).fill_(true);
    if (row.starts.empty()) AddDocument(begin, end);
    for (size_t i = 0; i < row.starts.size(); ++i) {
      const int64_t first = begin + row.starts[i];
      const int64_t last = i + 1 < row.starts.size() ? begin + row.starts[i + 1] : end;
      AddDocument(first, last);
      positions.narrow(0, first, last - first).copy_(at::arange(last - first, at::kLong));
      labels[last - 1].fill_(kNotTrained);  // the next document's first token
    }
  }

  void AddDocument(int64_t begin, int64_t end) {
    sequence.narrow(0, begin, end - begin).fill_(static_cast<int64_t>(documents.size()));
    documents.push_back({begin, end});
  }

  // The same places with what stands `depth` further on in their documents. At the end of a document nothing
  // does; what is computed there reaches no other place, for attention looks back only.
  WholeRows Ahead(int64_t depth) const {
    WholeRows shifted(rows, length);
    shifted.positions = positions;
    shifted.documents = documents;
    for (const Document& document : documents) {
      const int64_t count = document.end - document.begin - depth;
      if (count <= 0) continue;
      const auto move = [&](const at::Tensor& to, const at::Tensor& from, int64_t step) {
        to.narrow(0, document.begin, count).copy_(from.narrow(0, document.begin + step, count));
      };
      move(shifted.tokens, tokens, depth);
      move(shifted.labels, labels, depth);
      move(shifted.real, real, 0);
      move(shifted.sequence, sequence, 0);
    }
    return shifted;
  }

  MicroBatch On(const std::shared_ptr<const ContextPlan>& plan) const {
    MicroBatch batch{.rows = rows, .length = plan->local_length(), .context = plan};
    const at::Tensor mine = at::tensor(plan->LocalTokens(), at::kLong);
    batch.tokens = tokens.index_select(0, mine);
    batch.labels = labels.index_select(0, mine);
    batch.positions = positions.index_select(0, mine);
    batch.real = real.index_select(0, mine);
    batch.sequence = sequence.index_select(0, mine);
    batch.sequences = static_cast<int64_t>(documents.size());
    batch.order = mine;
    return batch;
  }
};

// Row of the step and place in it, whatever the rows beside it and their padding.
at::Tensor Identities(const MicroBatch& batch, int64_t first_row, int64_t length) {
  const at::Tensor mine = at::tensor(batch.context->LocalTokens(), at::kLong);
  constexpr int64_t kMostPlaces = int64_t{1} << 32;
  return (at::floor_divide(mine, length) + first_row) * kMostPlaces + at::remainder(mine, length);
}

// Which of the chosen rows a rank takes in each of its micro batches; in the last ones there may be none.
std::vector<std::span<const int64_t>> Shares(std::span<const int64_t> chosen, const BatchShape& shape) {
  const auto total = static_cast<int64_t>(chosen.size());
  const int64_t a_round = int64_t{shape.micro_batch} * shape.data_size;
  std::vector<std::span<const int64_t>> shares;
  for (int64_t first = 0; first < total; first += a_round) {
    const int64_t begin = std::min(first + int64_t{shape.data_rank} * shape.micro_batch, total);
    shares.push_back(chosen.subspan(begin, std::min<int64_t>(shape.micro_batch, total - begin)));
  }
  return shares;
}

// first_row: the number of the first one among those of the step.
MicroBatch MakeMicroBatch(std::span<const Row> rows, int64_t first_row, const BatchShape& shape,
                          double loss_scale) {
  int64_t length = 1;
  for (const Row& row : rows) length = std::max<int64_t>(length, static_cast<int64_t>(row.input_ids.size()));
  WholeRows whole(shape.micro_batch, (length + shape.multiple - 1) / shape.multiple * shape.multiple);
  for (size_t i = 0; i < rows.size(); ++i) whole.Fill(static_cast<int64_t>(i), rows[i]);
  const auto plan =
      std::make_shared<const ContextPlan>(whole.rows, whole.length, whole.documents, shape.context);
  MicroBatch batch = whole.On(plan);
  batch.loss_scale = loss_scale;
  batch.identities = Identities(batch, first_row, whole.length);
  batch.dropout = shape.dropout;
  for (int64_t depth = 1; depth <= shape.depths; ++depth) {
    MicroBatch& ahead = batch.ahead.emplace_back(whole.Ahead(depth).On(plan));
    ahead.identities = batch.identities;
    ahead.dropout = batch.dropout;
  }
  return batch;
}

void MoveTo(at::Device device, MicroBatch& batch) {
  for (at::Tensor* tensor :
       {&batch.tokens, &batch.labels, &batch.positions, &batch.real, &batch.sequence, &batch.order}) {
    *tensor = tensor->to(device);
  }
}

}  // namespace

std::vector<int64_t> OwnRows(std::span<const int64_t> chosen, const BatchShape& shape) {
  std::vector<int64_t> own;
  for (const std::span<const int64_t> share : Shares(chosen, shape)) {
    own.insert(own.end(), share.begin(), share.end());
  }
  return own;
}

std::vector<MicroBatch> MakeMicroBatches(const RowSource& rows, std::span<const int64_t> chosen,
                                         const BatchShape& shape) {
  int64_t trained = 0, tokens = 0;
  for (const int64_t row : chosen) {
    trained += rows.Trained(row);
    tokens += rows.Length(row);
  }
  const double loss_scale = trained > 0 ? 1.0 / static_cast<double>(trained) : 0.0;
  std::vector<MicroBatch> batches;
  for (const std::span<const int64_t> share : Shares(chosen, shape)) {
    std::vector<Row> mine;
    for (const int64_t row : share) mine.push_back(rows.Read(row));
    batches.push_back(MakeMicroBatch(mine, share.data() - chosen.data(), shape, loss_scale));
    MicroBatch& batch = batches.back();
    batch.token_scale = 1.0 / static_cast<double>(std::max<int64_t>(tokens, 1));
    MoveTo(shape.device, batch);
    for (MicroBatch& ahead : batch.ahead) MoveTo(shape.device, ahead);
  }
  return batches;
}

std::vector<MicroBatch> MakeMicroBatches(const std::vector<Row>& rows, const BatchShape& shape) {
  std::vector<int64_t> all(rows.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  return MakeMicroBatches(RowList(rows), all, shape);
}

at::Tensor CountAhead(const std::vector<MicroBatch>& batches, const BatchShape& shape) {
  const at::Tensor counts = at::zeros({shape.depths, 2}, at::TensorOptions(at::kInt).device(shape.device));
  for (const MicroBatch& batch : batches) {
    for (size_t depth = 0; depth < batch.ahead.size(); ++depth) {
      const at::Tensor count = counts[static_cast<int64_t>(depth)];
      count[0].add_(batch.ahead[depth].labels.ne(kNotTrained).sum());
      count[1].add_(batch.ahead[depth].real.sum());
    }
  }
  return counts;
}

void ScaleAhead(std::vector<MicroBatch>& batches, const at::Tensor& counts) {
  const int32_t* count = counts.data_ptr<int32_t>();
  const auto scale = [&](size_t place) { return count[place] > 0 ? 1.0 / count[place] : 0.0; };
  for (MicroBatch& batch : batches) {
    for (size_t depth = 0; depth < batch.ahead.size(); ++depth) {
      batch.ahead[depth].loss_scale = scale(2 * depth);
      batch.ahead[depth].token_scale = scale(2 * depth + 1);
    }
  }
}

}  // namespace trireme
