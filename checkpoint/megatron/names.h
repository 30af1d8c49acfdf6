// Which rows of which Megatron tensor are which rows of which Hugging Face tensor: one table of names and five
// rules (names.cc). Knows shapes, no bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/plan/box.h"

namespace trireme {

// Rows [from, from + rows) of a Megatron tensor are rows [to, to + rows) of a Hugging Face tensor; other dims are
// whole.
struct RowRange {
  int64_t from = 0, to = 0, rows = 0;
};

struct NamedRows {
  std::string hf_name;
  std::vector<RowRange> ranges;
  int64_t rows = 0;  // of the Hugging Face tensor
};

class MegatronNames {
 public:
  // Of a model's config.json; refuses a family that it cannot map, and lists those that it can.
  MegatronNames(const Json& config, std::string where);

  // The Hugging Face tensors of a Megatron tensor of this shape; none for a copy that Hugging Face files do not hold.
  // Refuses an unknown name and a shape that does not fit config.json.
  std::vector<NamedRows> ToHuggingFace(const std::string& megatron, const Shape& shape) const;
  int64_t layers() const { return layers_; }

 private:
  enum class Way;
  enum class When;
  struct Rule;
  struct Found;

  static const std::vector<Rule>& Rules();
  std::optional<Found> Find(const std::string& megatron) const;
  bool Applies(const Rule& rule) const;
  std::vector<NamedRows> QueriesKeysValues(const Found& found, int64_t rows) const;
  int64_t Integer(const Json& config, std::initializer_list<const char*> names, int64_t otherwise) const;

  std::string where_, family_;
  int64_t layers_ = 0, vocabulary_ = 0, heads_ = 0, groups_ = 0, latent_rows_ = 0;
  bool tied_ = false, latent_ = false;
};

}  // namespace trireme
