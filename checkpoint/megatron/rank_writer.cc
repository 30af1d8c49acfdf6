#include "checkpoint/megatron/rank_writer.h"

#include <cstdio>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/megatron/layer_numbers.h"
#include "checkpoint/megatron/written_arguments.h"
#include "checkpoint/megatron/written_layout.h"
#include "checkpoint/megatron/written_names.h"
#include "checkpoint/pickle/pickled.h"
#include "checkpoint/pickle/torch_writer.h"
#include "core/base/error.h"
#include "core/io/atomic_file.h"
#include "core/io/file_system.h"

namespace trireme {
namespace {

constexpr char kEmbedding[] = "embedding.word_embeddings.weight", kHead[] = "output_layer.weight";

struct RankTensor {
  std::string name;  // in the file
  const WrittenTensor* tensor;
  std::vector<Box> boxes;
};

std::string DirectoryOf(const MegatronRank& rank, const MegatronLayout& layout) {
  char name[64];
  int length = std::snprintf(name, sizeof name, "mp_rank_%02d", static_cast<int>(rank.tensor));
  const auto add = [&](int64_t number) {
    length +=
        std::snprintf(name + length, sizeof name - static_cast<size_t>(length), "_%03d", static_cast<int>(number));
  };
  if (layout.pipeline > 1) add(rank.pipeline);
  if (layout.expert > 1) add(rank.expert);
  return name;
}

// One rank's file: what it holds, and its writing.
class RankFile {
 public:
  RankFile(const WrittenModel& model, const MegatronExport& options, MegatronRank rank)
      : model_(model), options_(options), rank_(rank), chunks_(static_cast<size_t>(options.virtual_stages)) {
    const std::vector<LayerPlace> places = PlacesOfLayers(model.names().layers(), options);
    for (const WrittenTensor& tensor : model_.tensors()) AddWhereItBelongs(tensor, places);
    AddCopies();
  }

  void Write(const std::filesystem::path& directory, const std::string& arguments) const {
    CreateFolder(directory);
    AtomicFile file(directory / "model_optim_rng.pt");
    TorchFileWriter writer([&](const void* data, size_t bytes) { file.Write(data, bytes); }, "model_optim_rng",
                           Pickled(arguments));
    for (const std::vector<RankTensor>& chunk : chunks_) {
      for (const RankTensor& one : chunk) {
        const std::vector<std::byte> elements = model_.Read(*one.tensor, one.boxes);
        writer.Add(elements.data(), elements.size());
      }
    }
    writer.Close();
    file.Commit();
  }

 private:
  bool IsFirst() const { return rank_.pipeline == 0; }
  bool IsLast() const { return rank_.pipeline == options_.layout.pipeline - 1; }

  void AddWhereItBelongs(const WrittenTensor& tensor, const std::vector<LayerPlace>& places) {
    std::string rest;
    if (const auto layer = NumberAfter(tensor.name, kDecoder, rest)) {
      const LayerPlace& place = places[static_cast<size_t>(*layer)];
      if (place.stage == rank_.pipeline)
        Add(chunks_[static_cast<size_t>(place.chunk)], tensor, Concat(kDecoder, place.number, "."));
    } else if (tensor.name == kEmbedding ? IsFirst() : IsLast()) {
      Add(tensor.name == kEmbedding ? chunks_.front() : chunks_.back(), tensor, SplitLayer(tensor.name).layer);
    }
  }

  // The last stage has its own copy of the embedding where it needs one: for MTP layers, and as a tied model's head.
  void AddCopies() {
    if (IsFirst() || !IsLast()) return;
    const WrittenTensor* embedding = model_.Find(kEmbedding);
    if (model_.mtp_layers() > 0) Add(chunks_.back(), *embedding, "");
    if (!model_.names().tied()) return;
    Add(chunks_.back(), *embedding, "");
    chunks_.back().back().name = kHead;
  }

  // `layer`: as the chunk counts.
  void Add(std::vector<RankTensor>& chunk, const WrittenTensor& tensor, const std::string& layer) {
    std::string name = options_.transformer_engine ? FusedName(tensor.name, model_) : tensor.name;
    name = layer + name.substr(SplitLayer(name).layer.size());
    std::string rest = name;
    if (const size_t at = name.find(kMegatronExperts); at != std::string::npos) {
      const int64_t count = model_.experts() / options_.layout.expert;
      const int64_t expert = NumberAfter(name.substr(at), kMegatronExperts, rest).value();
      if (expert / count != rank_.expert) return;
      name = RankExpertName(name, expert % count, options_.transformer_engine);
    }
    const WrittenSplit split = SplitOf(tensor, options_.layout);
    const int64_t part = split.parts == 1 ? 0 : rank_.tensor;
    chunk.push_back({name, &tensor, PartBoxes(split.split, tensor.shape, part, split.parts)});
  }

  // Modules have a state beside their weights, of which nothing is saved without fp8.
  std::set<std::string> States(const std::vector<RankTensor>& chunk) const {
    std::set<std::string> modules, states;
    for (const RankTensor& one : chunk) {
      const auto [layer, rest] = SplitLayer(one.name);
      modules.insert(ModuleWithState(one.name));
      if (options_.transformer_engine && rest == "self_attention.linear_proj.weight")
        modules.insert(layer + "self_attention.core_attention");
    }
    modules.erase("");
    for (const std::string& module : modules) states.insert(module + "._extra_state");
    return states;
  }

  std::string PickledChunk(const std::vector<RankTensor>& chunk, int64_t& storage) const {
    std::vector<std::pair<std::string, std::string>> items;
    for (const RankTensor& one : chunk) {
      Shape shape = one.boxes.front().extent;
      for (size_t i = 1; i < one.boxes.size(); ++i) shape[0] += one.boxes[i].extent[0];
      items.emplace_back(PickledText(one.name), PickledTensor(one.tensor->dtype, shape, storage++));
    }
    for (const std::string& state : States(chunk)) items.emplace_back(PickledText(state), PickledNone());
    return PickledDict(items);
  }

  std::string Pickled(const std::string& arguments) const {
    int64_t storage = 0;
    std::vector<std::pair<std::string, std::string>> items = {{PickledText("args"), arguments},
                                                              {PickledText("checkpoint_version"), PickledFloat(3)},
                                                              {PickledText("iteration"), PickledInt(0)}};
    for (size_t i = 0; i < chunks_.size(); ++i) {
      const std::string key = chunks_.size() == 1 ? "model" : Concat("model", i);
      items.emplace_back(PickledText(key), PickledChunk(chunks_[i], storage));
    }
    return PickledDict(items);
  }

  const WrittenModel& model_;
  const MegatronExport& options_;
  MegatronRank rank_;
  std::vector<std::vector<RankTensor>> chunks_;
};

}  // namespace

void WriteRankFiles(const WrittenModel& model, const MegatronExport& options, const std::filesystem::path& iteration,
                    int rank, int ranks) {
  const std::string arguments = PickledArguments(model, options);
  int64_t number = 0;
  for (int64_t stage = 0; stage < options.layout.pipeline; ++stage) {
    for (const auto& [tensor_rank, expert_rank] : TensorAndExpertRanks(options.layout)) {
      if (number++ % ranks != rank) continue;
      const MegatronRank one{.tensor = tensor_rank, .pipeline = stage, .expert = expert_rank};
      RankFile(model, options, one).Write(iteration / DirectoryOf(one, options.layout), arguments);
    }
  }
}

}  // namespace trireme
