// LoraAdapter: a PEFT LoRA adapter directory, read and held against the model it is for. W' = W + scale · B·A
// for each adapted weight, in fp32; weights that the adapter replaces (modules_to_save) are taken as they
// are. What is not understood is refused, never left out.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/convert.h"
#include "checkpoint/hf_directory.h"
#include "checkpoint/safetensors.h"
#include "core/base/json.h"

namespace trireme {

struct LoraPair {
  const TensorView* a = nullptr;  // [rank, inputs]
  const TensorView* b = nullptr;  // [outputs, rank]
  bool embedding = false;         // the weight is the transpose of what A and B make: [inputs, outputs]
};

class LoraAdapter : public TensorChange {
 public:
  // Refuses an adapter whose tensors do not fit `base`, or that uses more than plain LoRA.
  LoraAdapter(const std::filesystem::path& directory, const HfDirectory& base);

  bool Changes(const std::string& name) const override {
    return pairs_.contains(name) || replaced_.contains(name);
  }
  void Apply(const std::string& name, std::vector<float>& values) const override;

  const std::map<std::string, LoraPair>& pairs() const { return pairs_; }  // by the base's weight
  size_t replaced() const { return replaced_.size(); }

 private:
  void ReadConfig();
  void Sort(const std::string& name, const TensorView& view);
  void CheckPairs(const HfDirectory& base) const;
  double ScaleOf(const std::string& module, int64_t rank) const;
  std::string Where(const std::string& name) const;

  std::filesystem::path directory_;
  Json config_;
  SafetensorsFile file_;
  std::map<std::string, LoraPair> pairs_;
  std::map<std::string, const TensorView*> replaced_;
};

}  // namespace trireme
