#include "launch/step_rows.h"

#include "core/base/random.h"

namespace trireme {

std::vector<Row> RandomRows(int64_t count, const RowShape& shape, int64_t vocabulary, uint64_t seed) {
  const RandomStream random(seed, "tokens of bench step");
  const int64_t length = shape.length;
  std::vector<Row> rows(count);
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t i = 0; i < length; ++i) {
      rows[r].input_ids.push_back(
          static_cast<int64_t>(random.Below(static_cast<uint64_t>(vocabulary), static_cast<uint64_t>(r * length + i))));
    }
    rows[r].labels = rows[r].input_ids;
    for (int64_t d = 0; shape.documents > 1 && d < shape.documents; ++d)
      rows[r].starts.push_back(d * length / shape.documents);
  }
  return rows;
}

}  // namespace trireme
