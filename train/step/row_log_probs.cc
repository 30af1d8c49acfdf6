#include "train/step/row_log_probs.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

// Writes the results of this rank's micro batches to their row and label: [rows, longest].
void PlaceByRow(const PassInput& input, const at::Tensor& log_probs, const at::Tensor& table) {
  const at::Tensor values = log_probs.to(at::kCPU), labels = input.labels.to(at::kCPU);
  const int64_t* identity = input.identities.data_ptr<int64_t>();
  for (int64_t i = 0; i < values.numel(); ++i) {
    if (labels[i].item<int64_t>() == kNotTrained) continue;
    // A label is one position after the token that predicts it.
    table[RowOf(identity[i])][PositionOf(identity[i]) + 1].copy_(values[i]);
  }
}

}  // namespace

RowLogProbs PassForLogProbs(Trainer& trainer, const std::vector<Row>& rows) {
  Session& session = trainer.session();
  std::vector<int64_t> all(rows.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  const RowList list(rows);
  PassOptions options = trainer.OptionsOf(TotalsOf(list, all));
  options.wants.log_probs = true;
  PassBatch batch(MakePassInputs(list, all, ShapeOf(session)), options);
  RowLogProbs found{.loss = trainer.Pass(batch), .rows = {}};

  int64_t longest = 0;
  for (const Row& row : rows) longest = std::max<int64_t>(longest, std::ssize(row.input_ids));
  at::Tensor table = at::zeros({std::ssize(rows), longest});
  for (int i = 0; i < batch.size() && session.Coordinate("tp") == 0; ++i) {
    const at::Tensor& log_probs = batch.result().outputs[static_cast<size_t>(i)].log_probs;
    if (log_probs.defined()) PlaceByRow(batch.input(i), log_probs, table);
  }
  table = table.to(session.tensors().torch());
  AllReduce(table, session.world());  // exactly one rank contributes each label
  table = table.to(at::kCPU);
  for (size_t r = 0; r < rows.size(); ++r) {
    std::vector<double>& row = found.rows.emplace_back(rows[r].labels.size(), std::numeric_limits<double>::quiet_NaN());
    for (size_t i = 1; i < row.size(); ++i) {
      const bool starts = std::count(rows[r].starts.begin(), rows[r].starts.end(), static_cast<int64_t>(i)) > 0;
      if (rows[r].labels[i] == kNotTrained || starts) continue;
      row[i] = table[static_cast<int64_t>(r)][static_cast<int64_t>(i)].item<double>();
    }
  }
  return found;
}

}  // namespace trireme
