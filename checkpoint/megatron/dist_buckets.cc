#include "checkpoint/megatron/dist_buckets.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "checkpoint/elements.h"
#include "checkpoint/megatron/flat_buffer.h"
#include "checkpoint/megatron/layer_numbers.h"
#include "checkpoint/megatron/rank_files.h"
#include "core/base/error.h"

namespace trireme {
namespace {

// The modules of a layer in the order in which they are made; of the model in that of these groups.
constexpr std::string_view kInLayer[] = {"input_layernorm.",
                                         "enorm.",
                                         "hnorm.",
                                         "eh_proj.",
                                         "linear_proj.",
                                         "linear_q_proj.",
                                         "linear_q_down_",
                                         "linear_q_up_",
                                         "linear_kv_down",
                                         "linear_kv_up_",
                                         "linear_qkv.weight",
                                         "linear_qkv.bias",
                                         "self_attention.q_layernorm.",
                                         "self_attention.k_layernorm.",
                                         "kv_layernorm.",
                                         "pre_mlp_layernorm.",
                                         "mlp.router.",
                                         "mlp.experts.",
                                         "shared_experts.",
                                         "linear_fc1.weight",
                                         "linear_fc1.bias",
                                         "linear_fc2.",
                                         "final_layernorm."};

using Order = std::tuple<int, int64_t, size_t, int64_t, std::string>;  // group, layer, module, expert, name

Order OrderOf(const std::string& name) {
  std::string rest = name;
  int64_t layer = 0;
  int group = name.starts_with("embedding.") ? 0 : name.starts_with("decoder.") ? 2 : 4;
  if (const auto number = NumberAfter(name, kDecoder, rest)) {
    group = 1;
    layer = *number;
  } else if (const auto depth = NumberAfter(name, kMtp, rest)) {
    group = 3;
    layer = *depth;
  }
  std::string expert_name = rest;
  const int64_t expert = TakeExpert(expert_name).value_or(0);
  size_t module = 0;
  while (module < std::size(kInLayer) && rest.find(kInLayer[module]) == std::string::npos) ++module;
  return {group, layer, module, expert, rest};
}

// "optimizer.distributed.dp_group_idx_K.gbuf_idx_B.dtype_(…).bucket_idx_J.STATE" of the CHAIN-th optimizer.
struct BucketKey {
  int64_t chain = 0, group = 0, buffer = 0, bucket = 0;
  std::string types, state;
};

std::optional<BucketKey> BucketKeyOf(const std::string& key) {
  std::string rest = key;
  BucketKey found;
  found.chain = NumberAfter(key, kChain, rest).value_or(0);
  const auto take = [&](std::string_view before, int64_t& number) {
    const std::string whole = rest;
    const auto taken = NumberAfter(whole, before, rest);
    number = taken.value_or(0);
    return taken.has_value();
  };
  if (!take("optimizer.distributed.dp_group_idx_", found.group) || !take("gbuf_idx_", found.buffer))
    return std::nullopt;
  constexpr std::string_view kBucket = "bucket_idx_";
  const size_t at = rest.find(kBucket);
  if (at == std::string::npos) return std::nullopt;
  found.types = rest.substr(0, at);
  rest.erase(0, at);
  if (!take(kBucket, found.bucket)) return std::nullopt;
  found.state = rest;
  return found;
}

// All buckets of a buffer, one after the other.
struct RankBuffer {
  std::map<std::string, std::map<int64_t, const DistTensor*>> buckets;  // by state, by number
};

class Buckets {
 public:
  Buckets(DistReader& reader, const MegatronCheckpoint& checkpoint, MegatronStates& states)
      : reader_(reader), checkpoint_(checkpoint), states_(states), where_(reader.directory().string()) {}

  void Read() {
    std::map<std::tuple<int64_t, int64_t, int64_t, std::string>, RankBuffer> buffers;
    for (const auto& [key, tensor] : reader_.metadata().tensors) {
      const std::optional<BucketKey> found = BucketKeyOf(key);
      if (!found) continue;
      const std::string state = StateOf(found->state, where_);
      if (state.empty()) continue;
      buffers[{found->chain, found->group, found->buffer, found->types}].buckets[state][found->bucket] = &tensor;
    }
    if (buffers.empty()) return;
    if (!checkpoint_.arguments)
      throw InputError(where_,
                       ": its optimizer is in buckets of ranks (dp_reshardable), and there are no 'args' that "
                       "say what the ranks are; save it with --dist-ckpt-optim-fully-reshardable");
    layout_ = LayoutOf(*checkpoint_.arguments, where_);
    for (const auto& [place, buffer] : buffers) ReadBuffer(std::get<0>(place), std::get<1>(place), buffer);
  }

 private:
  // Groups are numbered by the tensor-parallel rank first; those of an optimizer of experts by that of experts.
  MegatronRank RankOf(int64_t chain, int64_t group) const {
    if (!OfExperts(chain)) return {.tensor = group % layout_.tensor};
    return {.tensor = group % layout_.expert_tensor, .expert = group / layout_.expert_tensor % layout_.expert};
  }
  bool OfExperts(int64_t chain) const { return chain > 0 && layout_.expert > 1; }

  std::vector<Box> BoxesOf(const std::string& name, const Shape& shape, const MegatronRank& rank) const {
    const bool expert = name.find(kMegatronExperts) != std::string::npos;
    const int64_t parts = expert ? layout_.expert_tensor : layout_.tensor;
    return PartBoxes(SplitOf(name, layout_), shape, rank.tensor % parts, parts);
  }

  // The rank's part of every weight that it may have: its stage is not known, and not needed.
  std::vector<LocalParameter> ParametersOf(int64_t chain, const MegatronRank& rank) const {
    std::vector<std::pair<Order, const MegatronTensors::value_type*>> sorted;
    const int64_t experts = checkpoint_.arguments->Integer("num_experts", 0) / layout_.expert;
    for (const auto& weight : checkpoint_.weights) {
      std::string rest = weight.first;
      const size_t at = rest.find(kMegatronExperts);
      if (IsMegatronBuffer(weight.first)) continue;
      if (OfExperts(chain)) {
        if (at == std::string::npos) continue;
        const auto number = NumberAfter(rest.substr(at), kMegatronExperts, rest);
        if (!number || experts < 1 || *number / experts != rank.expert) continue;
      }
      sorted.emplace_back(OrderOf(weight.first), &weight);
    }
    std::ranges::sort(sorted, {}, [](const auto& one) { return one.first; });
    std::vector<LocalParameter> parameters;
    for (const auto& [order, weight] : sorted) {
      const MegatronTensor& tensor = weight->second;
      const std::vector<Box> boxes = BoxesOf(weight->first, tensor.shape, rank);
      Shape shape = boxes.front().extent;
      for (size_t i = 1; i < boxes.size(); ++i) shape[0] += boxes[i].extent[0];
      parameters.push_back({weight->first, tensor.dtype, shape, [&tensor, boxes](void* target) {
                              for (const Box& box : boxes) {
                                ReadBox(tensor, box, target, RowMajorStrides(box.extent));
                                target = Advance(target, tensor.dtype, box.elements());
                              }
                            }});
    }
    return parameters;
  }

  FlatBuffer Joined(const std::map<int64_t, const DistTensor*>& buckets, std::vector<int64_t>& begins) {
    FlatBuffer flat;
    int64_t begin = 0;
    begins.clear();
    for (const auto& [number, tensor] : buckets) {
      if (tensor->shape.size() != 1 || number != static_cast<int64_t>(begins.size()))
        throw InputError(where_, ": bucket ", begins.size(), " of its optimizer is missing; files are missing");
      begins.push_back(begin);
      for (const DistChunk& chunk : tensor->chunks) {
        flat.Add(begin + chunk.box.offset[0], chunk.box.extent[0],
                 [bytes = reader_.Bytes(chunk.item), file = reader_.FileOf(chunk.item), dtype = tensor->dtype,
                  extent = chunk.box.extent] { return OpenChunk(bytes, file, dtype, extent); });
      }
      begin += tensor->shape[0];
    }
    return flat;
  }

  void ReadBuffer(int64_t chain, int64_t group, const RankBuffer& buffer) {
    const MegatronRank rank = RankOf(chain, group);
    std::map<std::string, std::shared_ptr<FlatBuffer>> flats;
    std::vector<int64_t> begins;
    for (const char* state : {kMaster, kFirstMoment, kSecondMoment}) {
      const auto found = buffer.buckets.find(state);
      if (found == buffer.buckets.end())
        throw InputError(where_, ": a buffer of its optimizer has no ", state, "; files are missing");
      flats[state] = std::make_shared<FlatBuffer>(Joined(found->second, begins));
    }
    const std::vector<LocalParameter> parameters = ParametersOf(chain, rank);
    for (const FoundParameter& found : FindParameters(*flats[kMaster], parameters, begins, where_)) {
      const LocalParameter& parameter = parameters[found.parameter];
      for (const auto& [state, flat] : flats) Place(state, flat, parameter, found.begin, rank);
    }
  }

  // The boxes of the whole tensor that the part holds, one below the other. Elements in several chunks are put together
  // when they are read, in memory that the next such read takes.
  void Place(const std::string& state, const std::shared_ptr<FlatBuffer>& flat, const LocalParameter& parameter,
             int64_t begin, const MegatronRank& rank) {
    const MegatronTensor& weight = checkpoint_.weights.at(parameter.name);
    for (const Box& box : BoxesOf(parameter.name, weight.shape, rank)) {
      const auto open = [flat, begin, count = box.elements(), extent = box.extent, scratch = scratch_, where = where_] {
        StridedTensor view = flat->View(begin, count);
        if (view.data == nullptr) {
          scratch->resize(static_cast<size_t>(count));
          flat->Read(begin, count, scratch->data(), where);
          view = {DType::kFp32, {count}, {1}, scratch->data()};
        }
        view.shape = extent;
        view.strides = RowMajorStrides(extent);
        return view;
      };
      AddPiece(states_.tensors[state], parameter.name, {DType::kFp32, weight.shape, {{box, open}}, weight.file});
      begin += box.elements();
    }
  }

  DistReader& reader_;
  const MegatronCheckpoint& checkpoint_;
  MegatronStates& states_;
  MegatronLayout layout_;
  std::string where_;
  std::shared_ptr<std::vector<float>> scratch_ = std::make_shared<std::vector<float>>();
};

}  // namespace

void ReadDistBuckets(DistReader& reader, const MegatronCheckpoint& checkpoint, MegatronStates& states) {
  for (const auto& [key, item] : reader.metadata().objects) {
    if (WithoutChain(key).find(".param_state/") == std::string::npos) continue;
    throw InputError(reader.FileOf(item).string(),
                     ": its optimizer is saved as dp_zero_gather_scatter, one pickled value per rank; load and save it "
                     "with --dist-ckpt-optim-fully-reshardable, or convert the weights alone, without --optimizer");
  }
  Buckets(reader, checkpoint, states).Read();
}

}  // namespace trireme
