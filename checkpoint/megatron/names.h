// Which rows of which Megatron tensor are which rows of which Hugging Face tensor: one table of names and five
// rules (name_rules.h), read in both directions. Knows shapes, no bytes.
#pragma once

#include <cstdint>
#include <map>
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

struct NameRule;

// A Megatron tensor over the whole model, by CommonName's name, and the Hugging Face tensors it is made of. Rows of
// none of them pad the vocabulary.
struct MegatronTarget {
  std::string name;
  Shape shape;
  std::vector<NamedRows> parts;
};

class MegatronNames {
 public:
  // Of a model's config.json; refuses a family that it cannot map, and lists those that it can.
  MegatronNames(const Json& config, std::string where);

  // The Hugging Face tensors of a Megatron tensor of this shape; none for a copy that Hugging Face files do not hold.
  // Refuses an unknown name and a shape that does not fit config.json.
  std::vector<NamedRows> ToHuggingFace(const std::string& megatron, const Shape& shape) const;
  // The inverse: the Megatron tensors that Hugging Face tensors of these shapes become, in the model's order, with a
  // vocabulary of `padded_vocabulary` rows. Refuses a tensor that none takes, and one without its others.
  std::vector<MegatronTarget> FromHuggingFace(const std::map<std::string, Shape>& tensors,
                                              int64_t padded_vocabulary) const;
  // The tensor of which this one is a copy that Megatron does not have: an MTP layer's embedding or head, the head of
  // tied embeddings. Empty: it is none.
  std::string OriginalOf(const std::string& hf_name) const;

  int64_t layers() const { return layers_; }
  int64_t vocabulary() const { return vocabulary_; }
  int64_t heads() const { return heads_; }
  int64_t groups() const { return groups_; }  // of keys and values
  bool tied() const { return tied_; }
  bool latent() const { return latent_; }
  const std::string& family() const { return family_; }

 private:
  struct Found;
  struct Group;

  std::optional<Found> Find(const std::string& megatron) const;
  bool Applies(const NameRule& rule) const;
  std::vector<Group> GroupsOf(const std::map<std::string, Shape>& tensors) const;
  MegatronTarget TargetOf(const NameRule& rule, const Group& group, const std::map<std::string, Shape>& tensors,
                          int64_t padded_vocabulary) const;
  std::string NameIn(const Group& group, const NameRule& rule) const;
  std::vector<NamedRows> QueriesKeysValues(const Found& found, int64_t rows) const;
  int64_t Integer(const Json& config, std::initializer_list<const char*> names, int64_t otherwise) const;

  std::string where_, family_;
  int64_t layers_ = 0, vocabulary_ = 0, heads_ = 0, groups_ = 0, latent_rows_ = 0;
  bool tied_ = false, latent_ = false;
};

}  // namespace trireme
