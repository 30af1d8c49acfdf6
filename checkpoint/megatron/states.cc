#include "checkpoint/megatron/states.h"

#include <cmath>
#include <optional>
#include <utility>

#include "checkpoint/elements.h"
#include "checkpoint/megatron/hf_tensors.h"
#include "checkpoint/stored_states.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"

namespace trireme {
namespace {

using Kind = PickleValue::Kind;

constexpr char kWeightsAlone[] = "convert the weights alone, without --optimizer";

std::optional<int64_t> NumberOf(const TorchFile& file, const PickleValue& value) {
  if (value.is(Kind::kInt) || value.is(Kind::kFloat)) return std::llround(value.real);
  const std::optional<StridedTensor> tensor = file.TensorOf(value);
  if (!tensor || Elements(tensor->shape) != 1 || !CanConvert(tensor->dtype, DType::kFp32)) return std::nullopt;
  float number = 0;
  Convert(tensor->dtype, tensor->data, DType::kFp32, &number, 1);
  return std::llround(number);
}

// Values refer to each other: both the depth and the number of visits are bounded.
void FindUpdates(const TorchFile& file, const PickleValue& value, int depth, int64_t& visits,
                 std::set<int64_t>& found) {
  if (depth == 0 || --visits < 0) return;
  if (value.is(Kind::kList)) {
    for (const PickleValue* one : value.items) FindUpdates(file, *one, depth - 1, visits, found);
  }
  if (!value.is(Kind::kDict)) return;
  for (size_t i = 0; i + 1 < value.items.size(); i += 2) {
    const PickleValue &key = *value.items[i], &inner = *value.items[i + 1];
    if (key.is(Kind::kText) && (key.text == "step" || key.text == "common_step")) {
      if (const auto number = NumberOf(file, inner)) found.insert(*number);
    } else {
      FindUpdates(file, inner, depth - 1, visits, found);
    }
  }
}

class HfStates : public StoredStates {
 public:
  HfStates(const std::filesystem::path& directory, const std::filesystem::path& config)
      : checkpoint_(OpenMegatron(directory)) {
    RefuseOtherOptimizer();
    if (PathExists(path() / ".metadata"))
      ReadDistStates(checkpoint_, states_);
    else
      ReadRankStates(checkpoint_, states_);
    const MegatronNames names(ReadJsonFile(config.string()), config.string());
    const HfTensors weights(checkpoint_.weights, names);
    RefuseNone();
    for (const auto& [state, tensors] : states_.tensors) Open(state, tensors, names);
    RefuseMissing(weights);
    if (states_.updates.size() != 1) RefuseUpdates();
    if (updates() > step())
      throw InputError(path().string(), ": its optimizer has done ", updates(), " updates in ", step(),
                       " iterations; weights and optimizer are not of one checkpoint");
  }

  std::vector<std::string> Of(const std::string& name) const override {
    std::vector<std::string> found;
    for (const auto& [state, tensors] : by_name_) {
      if (tensors.Has(name) && !(state == kMaster && !with_master_.contains(name))) found.push_back(state);
    }
    return found;
  }
  TensorView Describe(const std::string& state, const std::string& name) const override {
    const HfTensors& tensors = by_name_.at(state);
    return {tensors.dtype(name), tensors.shape(name), {}};
  }
  void Read(const std::string& state, const std::string& name, void* target) const override {
    by_name_.at(state).Read(name, target);
  }
  int64_t step() const override { return checkpoint_.iteration; }
  int64_t updates() const override { return *states_.updates.begin(); }

 private:
  const std::filesystem::path& path() const { return checkpoint_.path; }

  void RefuseOtherOptimizer() const {
    const std::string name = checkpoint_.arguments ? checkpoint_.arguments->Text("optimizer") : "";
    if (name.empty() || name == "adam") return;
    throw InputError(path().string(), ": its optimizer is ", Printable(name), ", and only Adam's states are read; ",
                     kWeightsAlone);
  }

  void RefuseNone() const {
    if (states_.tensors.contains(kFirstMoment) && states_.tensors.contains(kSecondMoment)) return;
    const bool some = !states_.tensors.empty();
    throw InputError(path().string(), some ? ": has only a part of Adam's states" : ": has no optimizer's states",
                     Absent(), "; ", kWeightsAlone);
  }

  std::string Absent() const {
    return states_.absent.empty() ? "" : Concat(", and ", states_.absent.front().string(), " is not there");
  }
  // Where other ranks have such a file.
  std::string AbsentOfSome() const { return states_.opened.empty() ? "" : Absent(); }

  void Open(const std::string& state, const MegatronTensors& tensors, const MegatronNames& names) {
    for (const auto& [name, tensor] : tensors) {
      if (tensor.dtype != DType::kFp32 && tensor.dtype != DType::kBf16 && tensor.dtype != DType::kFp16)
        throw InputError(tensor.file.string(), ": '", state, "' of '", name, "' is in ", Name(tensor.dtype),
                         "; wanted fp32, bf16 or fp16; ", kWeightsAlone);
    }
    try {
      CheckComplete(tensors);
    } catch (const Error& error) {
      throw InputError(error.what(), AbsentOfSome());
    }
    by_name_.emplace(state, HfTensors(tensors, names, HfTensors::Layers::kAny));
  }

  // Of every weight that is trained: both moments, and a master where it is not fp32 itself.
  void RefuseMissing(const HfTensors& weights) {
    for (const std::string& name : weights.Names()) {
      if (IsMegatronBuffer(weights.MegatronNameOf(name))) continue;
      const bool own = weights.dtype(name) == DType::kFp32;
      if (!own) with_master_.insert(name);
      for (const char* state : {kFirstMoment, kSecondMoment, kMaster}) {
        if (state == std::string(kMaster) && own) continue;
        const auto found = by_name_.find(state);
        if (found == by_name_.end() || !found->second.Has(name))
          throw InputError(path().string(), ": has no ", state, " of '", name, "'", AbsentOfSome(),
                           "; copy all files of the checkpoint, or ", kWeightsAlone);
        if (found->second.shape(name) != weights.shape(name))
          throw InputError(path().string(), ": ", state, " of '", name, "' has the shape ",
                           ShapeText(found->second.shape(name)), ", and the weight ", ShapeText(weights.shape(name)),
                           "; weights and optimizer are not of one run");
      }
    }
  }

  [[noreturn]] void RefuseUpdates() const {
    std::string numbers;
    for (const int64_t number : states_.updates) numbers += Concat(numbers.empty() ? " " : ", ", number);
    throw InputError(
        path().string(),
        ": how many updates its optimizer has done is not said once:", numbers.empty() ? " nowhere" : numbers,
        "; Adam's correction of its moments needs it: files of several checkpoints are mixed, or ", kWeightsAlone);
  }

  MegatronCheckpoint checkpoint_;
  MegatronStates states_;
  std::map<std::string, HfTensors> by_name_;
  std::set<std::string> with_master_;
};

}  // namespace

std::string StateOf(std::string_view megatron, const std::string& where) {
  if (megatron == "step") return "";
  if (megatron == "param" || megatron == "fp32_param" || megatron == "master_param") return kMaster;
  if (megatron == kFirstMoment || megatron == kSecondMoment) return std::string(megatron);
  throw InputError(where, ": its optimizer has '", Printable(std::string(megatron)),
                   "', and only Adam's states are read: param, exp_avg and exp_avg_sq; ", kWeightsAlone);
}

void AddUpdates(const TorchFile& file, const PickleValue& optimizer, MegatronStates& states) {
  constexpr int kDepth = 7;
  int64_t visits = 1 << 24;
  FindUpdates(file, optimizer, kDepth, visits, states.updates);
}

std::unique_ptr<StoredStates> OpenStoredStates(const std::filesystem::path& directory,
                                               const std::filesystem::path& config) {
  return IsMegatron(directory) ? std::make_unique<HfStates>(directory, config) : nullptr;
}

}  // namespace trireme
