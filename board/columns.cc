// Lines are read as a stream of values: a line of a large mixture of experts has ten thousand counts that nobody plots.
#include "board/columns.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace trireme {
namespace {

constexpr size_t kMostColumns = 512;  // of a file that anyone may have written
constexpr int64_t kMostItems = 16;    // of a list
constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();

// The numbers of the first two levels, by name.
class NumberReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<std::pair<std::string, double>> numbers;
  bool is_object() const { return is_object_; }

  bool null() override { return Take(kAbsent); }
  bool boolean(bool) override { return Skip(); }
  bool number_integer(number_integer_t value) override { return Take(static_cast<double>(value)); }
  bool number_unsigned(number_unsigned_t value) override { return Take(static_cast<double>(value)); }
  bool number_float(number_float_t value, const string_t&) override { return Take(value); }
  bool string(string_t&) override { return Skip(); }
  bool binary(binary_t&) override { return Skip(); }
  bool key(string_t& name) override {
    if (depth_ == 1) first_ = name;
    if (depth_ == 2) second_ = name;
    return true;
  }
  bool start_object(std::size_t) override { return Open(false); }
  bool end_object() override { return Close(); }
  bool start_array(std::size_t) override { return Open(true); }
  bool end_array() override { return Close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  bool Open(bool is_list) {
    if (depth_ == 0 && is_list) return false;
    is_object_ = true;
    ++depth_;
    if (depth_ == 2) {
      in_list_ = is_list;
      item_ = 0;
    }
    return true;
  }
  bool Close() {
    --depth_;
    return true;
  }
  bool Skip() {
    if (depth_ == 2) ++item_;
    return depth_ > 0;
  }
  bool Take(double value) {
    if (depth_ == 1) numbers.emplace_back(first_, value);
    if (depth_ == 2 && !in_list_) numbers.emplace_back(first_ + "/" + second_, value);
    if (depth_ == 2 && in_list_ && item_ < kMostItems)
      numbers.emplace_back(first_ + "/" + std::to_string(item_ + 1), value);
    return Skip();
  }

  int64_t depth_ = 0, item_ = 0;
  bool in_list_ = false, is_object_ = false;
  std::string first_, second_;
};

}  // namespace

bool Columns::AddLine(std::string_view line) {
  NumberReader reader;
  if (!nlohmann::json::sax_parse(line.begin(), line.end(), &reader) || !reader.is_object()) return false;
  for (const auto& [name, value] : reader.numbers) {
    auto found = index_.find(name);
    if (found == index_.end()) {
      if (names_.size() == kMostColumns) continue;
      found = index_.emplace(name, names_.size()).first;
      names_.push_back(name);
      values_.emplace_back(static_cast<size_t>(rows_), kAbsent);
    }
    std::vector<double>& column = values_[found->second];
    column.resize(static_cast<size_t>(rows_) + 1, kAbsent);
    column.back() = std::isfinite(value) ? value : kAbsent;
  }
  ++rows_;
  for (std::vector<double>& column : values_) column.resize(static_cast<size_t>(rows_), kAbsent);
  return true;
}

void Columns::Clear() { *this = Columns(); }

double Columns::Value(const std::string& name, int64_t row) const {
  const auto found = index_.find(name);
  return found == index_.end() || row < 0 || row >= rows_ ? kAbsent : values_[found->second][static_cast<size_t>(row)];
}

}  // namespace trireme
