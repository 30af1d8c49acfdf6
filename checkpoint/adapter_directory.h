// AdapterDirectory: a PEFT LoRA adapter, or a LoRA run's checkpoint, under the names of the model's own
// tensors. Experts that PEFT stores in one tensor are presented one by one. Does not check whether they fit a
// model.
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
  bool older_names = false;  // of all modules (memory_names.h)
  bool internvl = false;     // and they are InternVL's
  bool newer_names = false;  // likewise: adapters that have older ones are read by these
};

// Metadata of a file in which gate and up of all experts are blocks of twice the rank, so that they are read
// as two adapters again.
inline constexpr char kGateUpKey[] = "experts.gate_up", kGateUpBlocks[] = "blocks";

// Before the name of an adapter's tensor in a checkpoint: what it was when training started, where that was taken away
// from the weights beside it.
inline constexpr char kInitialState[] = "initial";

// The tensors of a LoRA adapter.
struct AdapterTensorNames {
  std::string module, a, b;
  bool embedding = false;      // the weight is (B·A) transposed
  std::string magnitude = {};  // of DoRA
};
// The adapter that a tensor belongs to; nullopt if it is a weight of its own.
std::optional<AdapterTensorNames> AdapterTensorNamesOf(const std::string& name);

// How a checkpoint shows adapters that started from the weights beside them.
enum class AdapterForm {
  kPlain,      // beside the model's own weights: of twice the rank, the start taken away again
  kAsTrained,  // as the run has them, beside weights that have lost the start
};

class AdapterDirectory : public TensorSource {
 public:
  explicit AdapterDirectory(const std::filesystem::path& directory, const ExpertNames& experts = {},
                            AdapterForm form = AdapterForm::kPlain);

  const std::filesystem::path& path() const { return directory_; }
  const AdapterConfig& config() const { return *config_; }
  // The adapters' modules with rank and alpha, and the modules it replaces. Refuses an adapter without its A or B.
  AdapterPlan Plan() const;

  // Without those of a value head, which is no part of an adapter.
  std::vector<std::string> Names() const;
  bool Has(const std::string& name) const override { return views_.contains(name) || (files_ && files_->Has(name)); }
  const TensorView& Find(const std::string& name) const override;
  TensorView Describe(const std::string& name) const override;
  std::filesystem::path FileOf(const std::string& name) const override;

 private:
  struct FusedExperts;
  void ReadFile();
  void OpenCheckpoint(AdapterForm form);
  void DoubleAdapter(const AdapterTensorNames& adapter);
  TensorView Doubled(const std::string& name, bool stacked);
  void Take(const std::string& name, const TensorView& view);
  void Split(const std::string& stem, const FusedExperts& fused);
  void SplitFused(const std::string& stem, const TensorView& a, const TensorView& b, bool gate_up);
  struct Part;
  void TakePart(const std::string& name, const TensorView& a, const TensorView& b, const Part& part);
  void DropEmptyBlock(const std::string& stem, const std::string& word, int64_t experts);

  std::filesystem::path directory_;
  ExpertNames experts_;
  std::unique_ptr<AdapterConfig> config_;
  std::unique_ptr<HfDirectory> files_;     // if it is a checkpoint
  std::unique_ptr<SafetensorsFile> file_;  // otherwise
  std::map<std::string, TensorView> views_;
  std::vector<std::vector<std::byte>> memory_;  // of views that are not part of the file
  std::map<std::string, double> alphas_;        // of modules that shared a tensor with others
};

}  // namespace trireme
