// Columns: the numbers of a log's lines, one column per name, in the order in which names first appear. Absent and
// non-finite numbers are NaN. A nested object or list gives names with a slash: "experts/entropy", "mtp_loss/1".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

class Columns {
 public:
  // Returns false, adding nothing, for a line that is not an object.
  bool AddLine(std::string_view line);
  void Clear();

  int64_t rows() const { return rows_; }
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<double>& values(size_t column) const { return values_[column]; }
  // NaN: it has none.
  double Value(const std::string& name, int64_t row) const;

 private:
  int64_t rows_ = 0;
  std::vector<std::string> names_;
  std::map<std::string, size_t> index_;
  std::vector<std::vector<double>> values_;  // [names][rows]
};

}  // namespace trireme
