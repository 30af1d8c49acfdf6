// The table of names: what a layer's tensors are called in Megatron and in Hugging Face files, and how rows of one
// become rows of the other. names.cc reads it from Megatron's side, names_inverse.cc from the other.
#pragma once

#include <vector>

namespace trireme {

enum class NameWay { kSame, kHalves, kQkv, kStackedDown, kVocabulary };
enum class NameWhen { kAlways, kLatent, kPlain, kMixtral, kQwen2Moe };  // of the model
enum class NameOwner { kLayer, kMtpLayer, kModel };

struct NameRule {
  const char* megatron;  // of a layer, without its number; "*" is an expert's
  std::vector<const char*> hf;
  NameWay way = NameWay::kSame;
  NameWhen when = NameWhen::kAlways;
  NameOwner of = NameOwner::kLayer;
};

// Where several rules have the same Hugging Face tensors, the first has the names that are written.
const std::vector<NameRule>& NameRules();

}  // namespace trireme
