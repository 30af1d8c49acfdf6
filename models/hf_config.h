// HfConfig: a model's config.json, read by key with types checked, in the spellings of both transformers 4
// and 5. Knows no family: what the keys mean is up to the families.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <optional>
#include <set>
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

  // Refuses a key that is missing, null or of another type, unless there is a fallback.
  int64_t Size(const char* key) const;  // at least 1
  int64_t Size(const char* key, int64_t fallback) const;
  // nullopt if the key is missing or not an integer.
  std::optional<int64_t> WholeNumber(const char* key) const;
  double Number(const char* key, double fallback) const;
  bool Flag(const char* key, bool fallback) const;
  std::string Text(const char* key) const;
  std::vector<int64_t> Integers(const char* key) const;   // empty if the key is missing
  std::vector<double> Numbers(const char* key) const;     // likewise
  std::vector<std::string> Texts(const char* key) const;  // likewise
  std::string Architecture() const;                       // the first of architectures; empty if there is none
  // How many classes a classifier tells apart: num_labels, or as many as id2label has; 2 if neither is set.
  int64_t Labels() const;
  bool Has(const char* key) const { return Find(key) != nullptr; }
  // The object that is the key's value, as a config of its own.
  HfConfig Within(const char* key) const;
  // Present, and null: switched off where a missing key means a default.
  bool IsNull(const char* key) const { return json_.contains(key) && json_.at(key).is_null(); }
  // The same file, none of whose keys has been looked up.
  HfConfig Afresh() const { return {json_, source_}; }
  // Refuses keys that nobody has looked up, but for those without effect (models/config_keys.h): they may change what
  // the model computes. Call it when everything has been read.
  void RefuseUnread() const;
  // Keys that change nothing in the family, or where another key switches them off.
  void Unused(std::initializer_list<const char*> keys) const { looked_up_.insert(keys.begin(), keys.end()); }
  // Refuses any value other than `wanted`, for features that no family here implements.
  void Only(const char* key, const Json& wanted) const;

  DType WeightType() const;                        // dtype (5) or torch_dtype (4); fp32 if neither is set
  static constexpr int64_t kPhi3Positions = 4096;  // where Phi-3's config does not say
  // What only some families know of rotary embeddings.
  struct RopeTraits {
    double factor = 1;       // RotaryFactor
    double theta = 1e4;      // where the config has none
    bool ntk_alpha = false;  // the type "dynamic" has an alpha, which stretches the base once and for all
    // original_max_position_embeddings stands beside rope_parameters, too, and counts first; the only scaling is
    // longrope.
    bool phi3 = false;
    bool sections = false;  // M-RoPE's may be there: of tokens of text all three positions are the same
  };
  // rope_parameters (5), or rope_theta and rope_scaling (4).
  RopeSpec Rope(int64_t rotary_dim, const RopeTraits& traits) const;
  RopeSpec Rope(int64_t rotary_dim) const { return Rope(rotary_dim, RopeTraits{}); }
  // The same of an object that has the keys of rope_parameters itself.
  RopeSpec RopeHere(RopeSpec rope, const RopeTraits& traits) const;
  // The fraction of a head that is rotated: partial_rotary_factor in rope_parameters (5) or beside them (4).
  double RotaryFactor(double fallback) const;
  // How many tokens a sequence may have: max_position_embeddings, times the factor of a rotary embedding of the type
  // dynamic; nullopt if the key is missing.
  std::optional<int64_t> LongestSequence() const;
  // Factor of DeepSeek's attention scores in addition to 1 / sqrt(head_dim): mscale_all_dim squared.
  double YarnScoreScale() const;

  const std::string& source() const { return source_; }
  const Json& json() const { return json_; }

 private:
  // In hf_rope.cc, of an object with the keys of rope_parameters.
  void ReadScaling(const std::string& kind, RopeSpec& rope, const RopeTraits& traits) const;
  void ReadYarn(RopeSpec& rope) const;
  void ReadDynamic(RopeSpec& rope) const;
  void ReadLongrope(RopeSpec& rope) const;
  const Json* Find(const char* key) const;
  [[noreturn]] void Refuse(const std::string& key, const std::string& why) const;

  Json json_;
  std::string source_;  // the file, for messages
  mutable std::set<std::string, std::less<>> looked_up_;
};

}  // namespace trireme
