#include "serve/tinker/raw_data.h"

#include "core/base/error.h"

namespace trireme::tinker {

void Refuse(const std::string& message) { throw ApiError{.status = 400, .message = message, .code = "invalid_value"}; }

namespace {

// Before there is a dense tensor.
void TakeCells(const std::vector<int64_t>& shape, DenseBudget& budget, const std::string& where) {
  if (shape.size() != 2) Refuse(where + ": a sparse tensor needs a shape of two dims");
  const int64_t rows = shape[0], width = shape[1];
  if (rows != budget.tokens)
    Refuse(Concat(where, ": has ", rows, " rows; wanted ", budget.tokens, ", one for each token of model_input"));
  if (width < 1 || width > kMostColumns) Refuse(Concat(where, ": has ", width, " columns; wanted 1 to ", kMostColumns));
  if (rows * width > budget.cells) {
    Refuse(Concat(where, ": stands for ", rows * width, " dense values; the request's sparse tensors have room for ",
                  budget.cells, " more: send fewer data at a time"));
  }
  budget.cells -= rows * width;
}

}  // namespace

RawTensor Densified(const RawTensor& values, const std::vector<int64_t>& row_starts,
                    const std::vector<int64_t>& columns, DenseBudget& budget, const std::string& where) {
  TakeCells(values.shape, budget, where);
  const int64_t rows = values.shape[0], width = values.shape[1];
  const auto count = static_cast<int64_t>(values.values.size());
  if (std::ssize(row_starts) != rows + 1 || std::ssize(columns) != count || row_starts.front() != 0 ||
      row_starts.back() != count) {
    Refuse(where + ": its sparse indices do not fit its values and shape");
  }
  RawTensor dense{.integers = values.integers, .shape = values.shape};
  dense.values.resize(static_cast<size_t>(rows * width), 0.0);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t begin = row_starts[static_cast<size_t>(row)], end = row_starts[static_cast<size_t>(row) + 1];
    if (begin > end || end > count) Refuse(where + ": its sparse row indices are not in ascending order");
    for (int64_t i = begin; i < end; ++i) {
      const int64_t column = columns[static_cast<size_t>(i)];
      if (column < 0 || column >= width) Refuse(Concat(where, ": sparse column ", column, " of ", width));
      dense.values[static_cast<size_t>(row * width + column)] = values.values[static_cast<size_t>(i)];
    }
  }
  return dense;
}

}  // namespace trireme::tinker
