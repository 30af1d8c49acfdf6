#include "session/value_head.h"

#include <string>

#include "checkpoint/elements.h"
#include "checkpoint/hf_directory.h"
#include "checkpoint/value_head_names.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "models/reward_model.h"
#include "session/tuning.h"

namespace trireme {
namespace {

constexpr char kPickledValueHead[] = "value_head.bin";

const std::string& NameInFile(const std::string& name) {
  static const std::string weight = kValueHeadWeight;
  return name == kScoreWeight ? weight : name;
}

}  // namespace

ValueHead::ValueHead(const std::filesystem::path& file) : file_(file) {
  if (!file_.tensors().contains(kValueHeadWeight)) {
    throw InputError(file.string(), ": has no ", kValueHeadWeight, "; wanted a value head as LLaMA-Factory writes it");
  }
  const auto bias = file_.tensors().find(kValueHeadBias);
  if (bias == file_.tensors().end()) return;
  if (Elements(bias->second.shape) != 1) {
    throw InputError(file.string(), ": ", kValueHeadBias, " is ", ShapeText(bias->second.shape), "; wanted one number");
  }
  float value = 0;
  Convert(bias->second.dtype, bias->second.bytes.data(), DType::kFp32, &value, 1);
  bias_ = value;
}

bool ValueHead::Has(const std::string& name) const { return file_.tensors().contains(NameInFile(name)); }

const TensorView& ValueHead::Find(const std::string& name) const {
  if (!Has(name)) throw InputError(file_.path().string(), ": has no tensor '", name, "'");
  return file_.tensors().at(NameInFile(name));
}

std::unique_ptr<ValueHead> FindValueHead(const Config& config) {
  const bool adapter = config.tuning().kind() == TUNING_LORA && !config.tuning().adapters().empty();
  for (const std::filesystem::path directory : {adapter ? config.tuning().adapters() : "", config.model().path()}) {
    if (directory.empty()) continue;
    if (PathExists(directory / kValueHeadFile)) return std::make_unique<ValueHead>(directory / kValueHeadFile);
    if (PathExists(directory / kPickledValueHead)) {
      throw InputError((directory / kPickledValueHead).string(), ": is a pickled value head; save its tensors as ",
                       kValueHeadFile, " (safetensors.torch.save_file(torch.load(…), …))");
    }
  }
  return nullptr;
}

double ScoreBiasOf(const Config& config, const LayerGraph& graph) {
  if (graph.drawn.empty()) return 0;
  if (config.model().init() == MODEL_INIT_WEIGHTS && HfDirectory(config.model().path()).Has(kScoreWeight)) return 0;
  if (const auto adapter = OpenAdapter(config.tuning(), graph); adapter && adapter->Has(kScoreWeight)) return 0;
  if (const auto head = FindValueHead(config)) return head->bias();
  throw InputError(config.model().path(), ": is no reward model: neither its config.json nor a value_head.safetensors ",
                   "says so; train one with stage: rm");
}

}  // namespace trireme
