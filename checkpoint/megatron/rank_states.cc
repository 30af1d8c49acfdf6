// The optimizer's states in Megatron's `torch` format: whole tensors by number in model_optim_rng.pt, or flat buffers
// in distrib_optim.pt beside it.
#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "checkpoint/elements.h"
#include "checkpoint/megatron/flat_buffer.h"
#include "checkpoint/megatron/rank_files.h"
#include "checkpoint/megatron/states.h"
#include "core/base/error.h"
#include "core/base/file.h"

namespace trireme {
namespace {

using Kind = PickleValue::Kind;

constexpr char kBuffers[] = "distrib_optim.pt";

struct RankParameter {
  std::string name;
  StridedTensor weights;
};

// In the order of the modules, which is that of the file.
std::vector<RankParameter> ParametersOf(const MegatronFile& file) {
  std::vector<RankParameter> parameters;
  for (const MegatronChunk& chunk : file.chunks) {
    const std::vector<PickleValue*>& items = chunk.tensors->items;
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      const std::string name = WholeName(chunk, items[i]->text);
      if (name.empty() || IsMegatronBuffer(name)) continue;
      if (const auto tensor = file.file->TensorOf(*items[i + 1])) parameters.push_back({name, *tensor});
    }
  }
  return parameters;
}

// One rank's part of the optimizer, which is Adam or a chain of several.
class RankStates {
 public:
  RankStates(const MegatronFiles& ranks, const MegatronFile& file, MegatronStates& states)
      : ranks_(ranks), file_(file), states_(states), parameters_(ParametersOf(file)), where_(file.path.string()) {}

  void Read(const PickleValue& optimizer) {
    AddUpdates(*file_.file, optimizer, states_);
    // A chain is a list, and a dict by number where it was once a part of torch_dist's.
    const PickleValue* second = optimizer.is(Kind::kDict) ? optimizer.Get(int64_t{0}) : nullptr;
    if (optimizer.is(Kind::kList)) {
      for (const PickleValue* one : optimizer.items) ReadNumbered(*one);
    } else if (second != nullptr) {
      for (size_t i = 1; i < optimizer.items.size(); i += 2) ReadNumbered(*optimizer.items[i]);
    } else {
      ReadNumbered(optimizer);
    }
    ReadBuffers(file_.path.parent_path() / kBuffers);
  }

 private:
  // Parameters have numbers there, counted through the groups, each of which has those of one kind in the modules'
  // order. `optimizer` is torch's, or Megatron's around it with the masters.
  void ReadNumbered(const PickleValue& optimizer) {
    const PickleValue* inner = optimizer.Get("optimizer");
    const PickleValue* adam = inner != nullptr ? inner : &optimizer;
    const PickleValue *state = adam->Get("state"), *groups = adam->Get("param_groups");
    if (state == nullptr || groups == nullptr || state->items.empty()) return;  // a distributed optimizer's are apart
    const PickleValue* masters = optimizer.Get("fp32_from_fp16_params");
    if (masters == nullptr) masters = optimizer.Get("fp32_from_fp16");
    for (size_t g = 0; g < groups->items.size(); ++g) {
      const PickleValue* numbers = groups->items[g]->Get("params");
      if (numbers == nullptr || numbers->items.empty()) continue;
      const std::vector<const RankParameter*> members = MembersOf(*groups->items[g], numbers->items.size());
      for (size_t i = 0; i < members.size(); ++i) AddNumbered(*members[i], state->Get(numbers->items[i]->integer));
      if (masters != nullptr && g < masters->items.size()) AddMasters(members, *masters->items[g]);
    }
  }

  bool IsMember(const RankParameter& parameter, const PickleValue& group) const {
    const auto says = [&](const char* key) {
      const PickleValue* value = group.Get(key);
      return value != nullptr && value->is(Kind::kBool) && value->integer != 0;
    };
    const PickleValue* decay = group.Get("wd_mult");
    const bool vector = parameter.weights.shape.size() == 1 || parameter.name.ends_with(".bias");
    const bool expert = parameter.name.find(kMegatronExperts) != std::string::npos && ranks_.layout.expert > 1;
    if (decay != nullptr && (decay->real == 0) != vector) return false;
    if (says("is_expert_parallel") != expert) return false;
    const bool ends = parameter.name.ends_with("word_embeddings.weight") || parameter.name == "output_layer.weight";
    return !says("is_decoupled_lr") || ends;
  }

  std::vector<const RankParameter*> MembersOf(const PickleValue& group, size_t count) const {
    std::vector<const RankParameter*> members;
    for (const RankParameter& parameter : parameters_) {
      if (IsMember(parameter, group)) members.push_back(&parameter);
    }
    if (members.size() == count) return members;
    throw InputError(where_, ": a group of its optimizer has ", count, " parameters, and the model has ",
                     members.size(),
                     " that belong there by weight decay and experts; parameters that are frozen or "
                     "have a learning rate of their own are not read: convert the weights alone, without --optimizer");
  }

  StridedTensor TensorOf(const PickleValue& value, const RankParameter& parameter, const std::string& state) const {
    const std::optional<StridedTensor> tensor = file_.file->TensorOf(value);
    if (!tensor)
      throw InputError(where_, ": '", state, "' of '", parameter.name, "' is ", Describe(value), "; wanted a tensor");
    if (tensor->shape != parameter.weights.shape)
      throw InputError(where_, ": '", state, "' of '", parameter.name, "' has the shape ", ShapeText(tensor->shape),
                       ", and the weight ", ShapeText(parameter.weights.shape),
                       "; weights and optimizer are not of one run");
    return *tensor;
  }

  void AddNumbered(const RankParameter& parameter, const PickleValue* values) {
    if (values == nullptr || !values->is(Kind::kDict)) return;  // missing: found at the end, by name
    for (size_t i = 0; i + 1 < values->items.size(); i += 2) {
      const std::string state = StateOf(values->items[i]->text, where_);
      if (!state.empty()) Place(state, parameter.name, TensorOf(*values->items[i + 1], parameter, state));
    }
  }

  // Of the group's parameters that are not fp32 themselves.
  void AddMasters(const std::vector<const RankParameter*>& members, const PickleValue& masters) {
    size_t next = 0;
    for (const RankParameter* parameter : members) {
      if (parameter->weights.dtype == DType::kFp32) continue;
      if (next >= masters.items.size()) return;
      const StridedTensor master = TensorOf(*masters.items[next++], *parameter, kMaster);
      RefuseOtherMaster(*parameter, master);
      Place(kMaster, parameter->name, master);
    }
  }

  // The proof that the numbers mean these parameters.
  void RefuseOtherMaster(const RankParameter& parameter, const StridedTensor& master) const {
    const StridedTensor& weights = parameter.weights;
    const auto bytes = static_cast<size_t>(Elements(weights.shape) * ByteSize(weights.dtype));
    std::vector<std::byte> rounded(bytes), wanted(bytes);
    const Shape strides = RowMajorStrides(weights.shape);
    CopyBox(weights.shape, {master.dtype, master.data, master.strides}, {weights.dtype, rounded.data(), strides});
    CopyBox(weights.shape, {weights.dtype, weights.data, weights.strides}, {weights.dtype, wanted.data(), strides});
    if (rounded == wanted) return;
    throw InputError(
        where_, ": the fp32 master of '", parameter.name, "' is not its weight in ", Name(weights.dtype),
        "; weights and optimizer are not of the same step: convert the weights alone, without --optimizer");
  }

  void Place(const std::string& state, const std::string& name, const StridedTensor& local) {
    PlaceTensor(name, local, file_.path, ranks_.layout, file_.rank, ranks_.local_experts, states_.tensors[state]);
  }

  void ReadBuffers(const std::filesystem::path& path) {
    if (!PathExists(path)) {
      states_.absent.push_back(path);
      return;
    }
    states_.files.push_back(std::make_shared<MappedFile>(path));
    states_.opened.push_back(std::make_shared<TorchFile>(states_.files.back()->bytes(), path.string()));
    const TorchFile& file = *states_.opened.back();
    where_ = path.string();
    const PickleValue& root = file.root();
    if (root.is(Kind::kList)) {  // of a chain; None where another rank has that part
      for (const PickleValue* one : root.items) ReadBuffersOf(file, *one);
    } else {
      ReadBuffersOf(file, root);
    }
  }

  // {number: {(type of parameters, type of gradients): {"param": …, "exp_avg": …, "exp_avg_sq": …}}}
  void ReadBuffersOf(const TorchFile& file, const PickleValue& buffers) {
    if (!buffers.is(Kind::kDict)) return;
    const PickleValue* whole = buffers.Get("buckets_coalesced");
    if (whole == nullptr || whole->integer == 0)
      throw InputError(where_, ": has its buffers in buckets; load and save it with a newer Megatron");
    for (size_t i = 0; i + 1 < buffers.items.size(); i += 2) {
      if (!buffers.items[i]->is(Kind::kInt)) continue;
      const std::vector<PickleValue*>& types = buffers.items[i + 1]->items;
      for (size_t t = 1; t < types.size(); t += 2) ReadBuffer(file, *types[t]);
    }
  }

  void ReadBuffer(const TorchFile& file, const PickleValue& buffer) {
    if (!buffer.is(Kind::kDict)) return;
    std::map<std::string, FlatBuffer> values;
    for (size_t i = 0; i + 1 < buffer.items.size(); i += 2) {
      const std::optional<StridedTensor> tensor = file.TensorOf(*buffer.items[i + 1]);
      if (!tensor || tensor->shape.size() != 1) continue;
      const std::string state = StateOf(buffer.items[i]->text, where_);
      if (!state.empty()) values[state].Add(0, tensor->shape[0], [view = *tensor] { return view; });
    }
    RefuseUnequal(values);
    for (const FoundParameter& found : FindParameters(values[kMaster], Locals(), {0}, where_)) {
      const RankParameter& parameter = parameters_[found.parameter];
      for (const auto& [state, flat] : values) {
        StridedTensor local = flat.View(found.begin, Elements(parameter.weights.shape));
        local.shape = parameter.weights.shape;
        local.strides = RowMajorStrides(local.shape);
        Place(state, parameter.name, local);
      }
    }
  }

  void RefuseUnequal(std::map<std::string, FlatBuffer>& values) const {
    for (const char* state : {kMaster, kFirstMoment, kSecondMoment}) {
      if (values[state].size() == values[kMaster].size() && values[kMaster].size() > 0) continue;
      throw InputError(where_, ": a buffer has ", values[state].size(), " elements of ", state, " and ",
                       values[kMaster].size(), " of the masters; wanted as many");
    }
  }

  std::vector<LocalParameter> Locals() const {
    std::vector<LocalParameter> locals;
    for (const RankParameter& parameter : parameters_) {
      const StridedTensor& weights = parameter.weights;
      locals.push_back({parameter.name, weights.dtype, weights.shape, [&weights](void* target) {
                          CopyBox(weights.shape, {weights.dtype, weights.data, weights.strides},
                                  {weights.dtype, target, RowMajorStrides(weights.shape)});
                        }});
    }
    return locals;
  }

  const MegatronFiles& ranks_;
  const MegatronFile& file_;
  MegatronStates& states_;
  std::vector<RankParameter> parameters_;
  std::string where_;  // the file that is read
};

void RefuseLayerWise(const std::filesystem::path& directory) {
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (!entry.path().filename().string().starts_with("layer_wise_optimizer_")) continue;
    throw InputError(entry.path().string(),
                     ": is of Muon's layer-wise optimizer, and only Adam's states are read; convert the weights alone, "
                     "without --optimizer");
  }
}

}  // namespace

void ReadRankStates(const MegatronCheckpoint& checkpoint, MegatronStates& states) {
  const MegatronFiles ranks = OpenMegatronFiles(checkpoint.path);
  for (const MegatronFile& file : ranks.files) {
    RefuseLayerWise(file.path.parent_path());
    states.files.push_back(file.bytes);
    const PickleValue* optimizer = file.file->root().Get("optimizer");
    if (optimizer != nullptr) RankStates(ranks, file, states).Read(*optimizer);
  }
}

}  // namespace trireme
