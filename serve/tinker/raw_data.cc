#include "serve/tinker/raw_data.h"

#include "core/base/error.h"

namespace trireme::tinker {

namespace {
constexpr int64_t kMostCells = int64_t{1} << 26;  // of one tensor: a small sparse one may stand for a huge dense one
}

void Refuse(const std::string& message) { throw ApiError{.status = 400, .message = message, .code = "invalid_value"}; }

RawTensor Densified(const RawTensor& values, const std::vector<int64_t>& row_starts,
                    const std::vector<int64_t>& columns, const std::string& where) {
  if (values.shape.size() != 2) Refuse(where + ": a sparse tensor needs a shape of two dims");
  const int64_t rows = values.shape[0], width = values.shape[1];
  if (rows < 0 || width < 1 || (rows > 0 && width > kMostCells / rows)) Refuse(where + ": its shape is too large");
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
