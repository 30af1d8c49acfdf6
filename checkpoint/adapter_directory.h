// AdapterDirectory: a PEFT LoRA adapter, or a LoRA run's checkpoint, by the names that the model's own
// tensors have. Experts that PEFT keeps in one tensor are shown one by one. Whether they fit a model is for
// those to say who know it.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/adapter_config.h"
#include "checkpoint/hf_directory.h"
#include "checkpoint/tensor_source.h"

namespace trireme {

// How the model's files name experts: "model.layers.0.BLOCK.experts.3.GATE".
struct ExpertNames {
  std::string block = "mlp", gate = "gate_proj", up = "up_proj", down = "down_proj";
};

// In the metadata of a file whose gate and up of all experts are blocks of twice the rank, so that they are
// read as two pairs again.
inline constexpr char kGateUpKey[] = "experts.gate_up", kGateUpBlocks[] = "blocks";

// The tensors of a low-rank pair.
struct PairNames {
  std::string module, a, b;
  bool embedding = false;  // the weight is the transpose of what A and B make
};
// Of the pair that a tensor belongs to; nothing where it is a weight of its own.
std::optional<PairNames> PairOf(const std::string& name);

class AdapterDirectory : public TensorSource {
 public:
  explicit AdapterDirectory(const std::filesystem::path& directory, const ExpertNames& experts = {});

  const std::filesystem::path& path() const { return directory_; }
  const AdapterConfig& config() const { return *config_; }
  // Pairs' modules with rank and alpha, and those it replaces. A pair without its A or B is refused.
  AdapterPlan Plan() const;

  std::vector<std::string> Names() const;
  bool Has(const std::string& name) const override {
    return files_ ? files_->Has(name) : views_.contains(name);
  }
  const TensorView& Find(const std::string& name) const override;
  TensorView Describe(const std::string& name) const override;
  std::filesystem::path FileOf(const std::string& name) const override;

 private:
  struct FusedExperts;
  void ReadFile();
  void Take(const std::string& name, const TensorView& view);
  void Split(const std::string& stem, const FusedExperts& fused);
  void SplitPair(const std::string& stem, const TensorView& a, const TensorView& b, bool gate_up);
  struct Part;
  void TakePart(const std::string& name, const TensorView& a, const TensorView& b, const Part& part);
  void DropEmptyBlock(const std::string& stem, const std::string& word, int64_t experts);

  std::filesystem::path directory_;
  ExpertNames experts_;
  std::unique_ptr<AdapterConfig> config_;
  std::unique_ptr<HfDirectory> files_;     // a checkpoint
  std::unique_ptr<SafetensorsFile> file_;  // otherwise
  std::map<std::string, TensorView> views_;
  std::vector<std::vector<std::byte>> memory_;  // of views that are no part of the file
  std::map<std::string, double> alphas_;        // of modules that were in one tensor with others
};

}  // namespace trireme
