// A Megatron checkpoint's weights by their Hugging Face names.
#include <map>
#include <utility>

#include "checkpoint/megatron/checkpoint.h"
#include "checkpoint/megatron/hf_tensors.h"
#include "checkpoint/stored_weights.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"

namespace trireme {
namespace {

class MegatronWeights : public StoredWeights {
 public:
  MegatronWeights(const std::filesystem::path& directory, const std::filesystem::path& config)
      : checkpoint_(OpenMegatron(directory)),
        tensors_(checkpoint_.weights, MegatronNames(ReadConfig(directory, config), config.string())) {}

  std::vector<std::string> Names() const override { return tensors_.Names(); }
  TensorView Describe(const std::string& name) const override {
    return {tensors_.dtype(name), tensors_.shape(name), {}};
  }
  void Read(const std::string& name, void* target) const override { tensors_.Read(name, target); }
  std::filesystem::path FileOf(const std::string& name) const override { return tensors_.FileOf(name); }

 private:
  static Json ReadConfig(const std::filesystem::path& directory, const std::filesystem::path& config) {
    if (PathExists(config)) return ReadJsonFile(config.string());
    throw InputError(directory.string(), ": is a Megatron checkpoint, which has no config.json: wanted ",
                     config.string(),
                     "; copy the model's config.json and tokenizer there, or convert it with --model DIR");
  }

  MegatronCheckpoint checkpoint_;
  HfTensors tensors_;
};

}  // namespace

std::unique_ptr<StoredWeights> OpenMegatronWeights(const std::filesystem::path& directory,
                                                   const std::filesystem::path& config) {
  return IsMegatron(directory) ? std::make_unique<MegatronWeights>(directory, config) : nullptr;
}

}  // namespace trireme
