// LoraAdapter: a PEFT LoRA adapter directory, checked against its base model. W' = W + scale · B·A for each
// adapted weight, in fp32; weights that the adapter replaces (modules_to_save) are used as they are. What is
// not supported is refused, never ignored.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/adapter_directory.h"
#include "checkpoint/convert.h"
#include "checkpoint/hf_directory.h"

namespace trireme {

class LoraAdapter : public TensorChange {
 public:
  // Refuses an adapter whose tensors do not fit `base`, or that uses more than plain LoRA.
  LoraAdapter(const std::filesystem::path& directory, const HfDirectory& base, const ExpertNames& experts = {});

  bool Changes(const std::string& name) const override { return adapters_.contains(name) || replaced_.contains(name); }
  void Apply(const std::string& name, std::vector<float>& values) const override;
  // A reward model's value head, on a base that has none.
  const TensorSource* Adds(const std::string& name) const override { return added_.contains(name) ? &files_ : nullptr; }
  std::vector<std::string> Added() const override { return {added_.begin(), added_.end()}; }

  const std::map<std::string, AdapterTensorNames>& adapters() const { return adapters_; }  // keyed by the base's weight
  size_t replaced() const { return replaced_.size(); }

 private:
  void CheckReplaced(const std::string& name, const HfDirectory& base) const;
  void CheckAdapter(const std::string& name, const AdapterTensorNames& adapter, const HfDirectory& base) const;
  std::string Where(const std::string& name) const;

  AdapterDirectory files_;
  AdapterPlan plan_;
  std::map<std::string, AdapterTensorNames> adapters_;
  std::set<std::string> replaced_, added_;
};

}  // namespace trireme
