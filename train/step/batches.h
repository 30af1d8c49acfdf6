// Rows into micro batches: split over the data-parallel ranks, padded, labels shifted, and
// each row over the context-parallel ranks. Every rank reads only its own rows and gets as many micro
// batches as the others, empty ones if rows run out.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/rows.h"
#include "parallel/pass/pass_context.h"
#include "session/session.h"

namespace trireme {

struct BatchShape {
  int micro_batch = 1;  // rows of one micro batch
  int data_rank = 0;
  int data_size = 1;
  int64_t multiple = 1;  // the length of a micro batch's rows is a multiple of this
  at::Device device = at::kCPU;
  ContextSplit context = {};
  int64_t mtp_depths = 0;
  std::optional<ImageTokens> images = {};  // of a model that sees
  bool tells_images = false;               // micro batches say which images they have
  bool runs_tower = true;                  // this rank has its layers, which alone read patches
};

// The shape for this rank in a session's layout, without multi-token prediction.
BatchShape ShapeOf(const Session& session);

// The `chosen` rows that this data-parallel rank reads, in the order of its micro batches.
std::vector<int64_t> OwnRows(std::span<const int64_t> chosen, const BatchShape& shape);

// Of the `chosen` rows micro batch i of rank r contains those starting at (i · data_size + r) · micro_batch.
// places: of each of them in the step, for what is drawn at random for a row, where another order was made
// (row_sharing.h); empty: as they come.
std::vector<PassInput> MakePassInputs(const RowSource& rows, std::span<const int64_t> chosen, const BatchShape& shape,
                                      std::span<const int64_t> places = {});
// The same for all of the given rows in memory.
std::vector<PassInput> MakePassInputs(const std::vector<Row>& rows, const BatchShape& shape);

// The row of the step and the position in it that an entry of PassInput::identities encodes.
int64_t RowOf(int64_t identity);
int64_t PositionOf(int64_t identity);

// Over all chosen rows, including those of other ranks; without multi-token prediction.
BatchTotals TotalsOf(const RowSource& rows, std::span<const int64_t> chosen);

// The trained labels and the tokens of these micro batches at each depth of multi-token
// prediction: [depths, 2] int32, to be summed over all ranks.
at::Tensor CountMtp(const std::vector<PassInput>& inputs, const BatchShape& shape);
// From that sum, in host memory.
std::vector<BatchTotals> MtpTotals(const at::Tensor& counts);

}  // namespace trireme
