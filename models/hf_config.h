// HfConfig: a model's config.json, read by key with types checked, for the spellings of transformers 4 and 5
// alike. Knows no family: what the keys mean is the families' business.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/plan/dtype.h"
#include "parallel/graph/specs.h"

namespace trireme {

class HfConfig {
 public:
  // From DIRECTORY/config.json.
  static HfConfig Read(const std::filesystem::path& directory);
  HfConfig(Json json, std::string source) : json_(std::move(json)), source_(std::move(source)) {}

  // A key that is missing, null or of another type is refused, unless there is a fallback.
  int64_t Size(const char* key) const;  // at least 1
  int64_t Size(const char* key, int64_t fallback) const;
  // Nothing where the key is missing or no whole number.
  std::optional<int64_t> WholeNumber(const char* key) const;
  double Number(const char* key, double fallback) const;
  bool Flag(const char* key, bool fallback) const;
  std::string Text(const char* key) const;
  std::vector<int64_t> Integers(const char* key) const;  // none where the key is missing
  bool Has(const char* key) const { return Find(key) != nullptr; }
  // Refuses any other value than `wanted`, for what no family here implements.
  void Only(const char* key, const Json& wanted) const;

  DType WeightType() const;  // dtype (5) or torch_dtype (4); fp32 where neither stands
  // rope_parameters (5), or rope_theta and rope_scaling (4).
  RopeSpec Rope(int64_t rotary_dim) const;
  // What DeepSeek's attention scores are multiplied by beside 1 / sqrt(head_dim): mscale_all_dim's square.
  double YarnScoreScale() const;

  const std::string& source() const { return source_; }

 private:
  void ReadYarn(RopeSpec& rope) const;
  const Json* Find(const char* key) const;
  [[noreturn]] void Refuse(const std::string& key, const std::string& why) const;

  Json json_;
  std::string source_;  // the file, for messages
};

}  // namespace trireme
