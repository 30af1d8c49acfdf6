#include "checkpoint/megatron/rank_files.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"

namespace trireme {
namespace {

using Kind = PickleValue::Kind;

constexpr std::string_view kRankPrefix = "mp_rank_";
constexpr std::string_view kLayers = "decoder.layers.";
constexpr char kFile[] = "model_optim_rng.pt";

std::vector<int64_t> NumbersIn(const std::string& directory) {
  std::vector<int64_t> numbers;
  size_t at = kRankPrefix.size();
  while (at <= directory.size()) {
    const size_t end = std::min(directory.find('_', at), directory.size());
    int64_t number = 0;
    const auto [last, error] = std::from_chars(directory.data() + at, directory.data() + end, number);
    if (error != std::errc() || last != directory.data() + end) return {};
    numbers.push_back(number);
    at = end + 1;
  }
  return numbers;
}

std::vector<std::filesystem::path> RankDirectories(const std::filesystem::path& iteration) {
  std::vector<std::filesystem::path> directories;
  for (const auto& entry : std::filesystem::directory_iterator(iteration)) {
    if (entry.path().filename().string().starts_with(kRankPrefix)) directories.push_back(entry.path());
  }
  std::ranges::sort(directories);
  return directories;
}

void OpenFile(MegatronFile& rank) {
  if (!PathExists(rank.path)) throw InputError(rank.path.string(), ": is missing; the checkpoint is only half saved");
  rank.bytes = std::make_shared<MappedFile>(rank.path);
  rank.file = std::make_shared<TorchFile>(rank.bytes->bytes(), rank.path.string());
  if (!rank.file->root().is(Kind::kDict))
    throw InputError(rank.path.string(), ": holds ", Describe(rank.file->root()), "; wanted a dict with 'model'");
}

std::shared_ptr<const RunArguments> ArgumentsOf(const MegatronFile& rank) {
  const PickleValue* arguments = rank.file->root().Get("args");
  if (arguments == nullptr) {
    throw InputError(
        rank.path.string(),
        ": has no 'args', which tell how the model is split over ranks; save it with Megatron's own save_checkpoint");
  }
  return std::make_shared<RunArguments>(rank.file, *arguments);
}

void RefuseOldVersion(const MegatronFile& rank) {
  const PickleValue* version = rank.file->root().Get("checkpoint_version");
  if (version == nullptr || version->real >= 2) return;
  throw InputError(
      rank.path.string(), ": its checkpoint_version is ", version->real,
      ", which orders queries, keys and values otherwise; wanted 2.0 or newer: load and save it with a newer Megatron");
}

// The second number is the pipeline's only where there are several stages.
MegatronRank RankOf(const std::filesystem::path& directory, const MegatronLayout& layout) {
  const std::vector<int64_t> numbers = NumbersIn(directory.filename().string());
  const size_t wanted = 1 + (layout.pipeline > 1 ? 1 : 0) + (layout.expert > 1 ? 1 : 0);
  MegatronRank rank;
  if (numbers.size() == wanted) {
    rank.tensor = numbers[0];
    if (layout.pipeline > 1) rank.pipeline = numbers[1];
    if (layout.expert > 1) rank.expert = numbers.back();
  }
  if (numbers.size() != wanted || rank.tensor >= layout.tensor || rank.pipeline >= layout.pipeline ||
      rank.expert >= layout.expert) {
    throw InputError(directory.string(), ": is no rank of tensor ", layout.tensor, " x pipeline ", layout.pipeline,
                     " x expert ", layout.expert,
                     ", which the checkpoint's 'args' say; files of two checkpoints are mixed");
  }
  return rank;
}

// Not every pair of a tensor- and an expert-parallel rank is written, but each of them with every stage.
void RefuseMissingRanks(const MegatronFiles& ranks, const std::filesystem::path& iteration) {
  const MegatronLayout& layout = ranks.layout;
  const auto check = [&](int64_t size, int64_t MegatronRank::* axis, const char* name) {
    std::set<std::pair<int64_t, int64_t>> there;
    for (const MegatronFile& file : ranks.files) there.emplace(file.rank.pipeline, file.rank.*axis);
    for (int64_t i = 0; i < layout.pipeline * size; ++i) {
      if (there.contains({i / size, i % size})) continue;
      throw InputError(iteration.string(), ": the file of ", name, "-parallel rank ", i % size, ", pipeline stage ",
                       i / size, " is missing, of tensor ", layout.tensor, " x pipeline ", layout.pipeline,
                       " x expert ", layout.expert, "; copy all mp_rank_… directories");
    }
  };
  check(layout.tensor, &MegatronRank::tensor, "tensor");
  check(layout.expert, &MegatronRank::expert, "expert");
}

void FindChunks(MegatronFile& rank) {
  const PickleValue& root = rank.file->root();
  if (const PickleValue* model = root.Get("model")) rank.chunks.push_back({"model", model, {}});
  for (int64_t i = 0; rank.chunks.size() == static_cast<size_t>(i); ++i) {
    const std::string key = Concat("model", i);
    if (const PickleValue* model = root.Get(key)) rank.chunks.push_back({key, model, {}});
  }
  if (rank.chunks.empty()) throw InputError(rank.path.string(), ": has no 'model'");
  for (const MegatronChunk& chunk : rank.chunks) {
    if (!chunk.tensors->is(Kind::kDict))
      throw InputError(rank.path.string(), ": '", chunk.key, "' is ", Describe(*chunk.tensors),
                       "; wanted a dict of tensors");
  }
}

std::optional<int64_t> LayerOf(const std::string& name) {
  if (!name.starts_with(kLayers)) return std::nullopt;
  int64_t number = 0;
  const auto [last, error] = std::from_chars(name.data() + kLayers.size(), name.data() + name.size(), number);
  return error == std::errc() && *last == '.' ? std::optional(number) : std::nullopt;
}

std::set<int64_t> OwnLayers(const MegatronChunk& chunk) {
  std::set<int64_t> layers;
  for (size_t i = 0; i + 1 < chunk.tensors->items.size(); i += 2) {
    if (const auto layer = LayerOf(CommonName(chunk.tensors->items[i]->text))) layers.insert(*layer);
  }
  return layers;
}

// A stage's chunks follow each other through the model: first chunks of all stages, then second ones; DualPipeV's
// second ones come back from the last stage to the first. Counting the layers that are there serves every way in which
// layers can be shared out, and layers without parameters.
void NumberLayers(MegatronFiles& ranks) {
  const bool mirrored = ranks.arguments->Text("schedules_method") == "dualpipev";
  size_t chunks = 0;
  for (const MegatronFile& file : ranks.files) chunks = std::max(chunks, file.chunks.size());
  int64_t next = 0;
  for (size_t chunk = 0; chunk < chunks; ++chunk) {
    for (int64_t step = 0; step < ranks.layout.pipeline; ++step) {
      const int64_t stage = mirrored && chunk % 2 == 1 ? ranks.layout.pipeline - 1 - step : step;
      std::map<int64_t, int64_t> numbers;
      for (MegatronFile& file : ranks.files) {
        if (file.rank.pipeline != stage || chunk >= file.chunks.size()) continue;
        const std::set<int64_t> own = OwnLayers(file.chunks[chunk]);
        for (const int64_t layer : numbers.empty() ? own : std::set<int64_t>()) numbers.emplace(layer, next++);
        if (own.size() != numbers.size())
          throw InputError(file.path.string(), ": has ", own.size(), " layers, and another rank of its stage ",
                           numbers.size());
        file.chunks[chunk].layers = numbers;
      }
    }
  }
}

}  // namespace

MegatronLayout LayoutOf(const RunArguments& arguments, const std::string& where) {
  MegatronLayout layout;
  layout.tensor = arguments.Integer("tensor_model_parallel_size", 1);
  layout.pipeline = arguments.Integer("pipeline_model_parallel_size", 1);
  layout.expert = arguments.Integer("expert_model_parallel_size", 1);
  layout.expert_tensor = arguments.Integer("expert_tensor_parallel_size", layout.tensor);
  layout.tensor_extends_expert = arguments.IsTrue("moe_tp_extend_ep");
  layout.latent_attention =
      arguments.IsTrue("multi_latent_attention") || arguments.IsTrue("multi_head_latent_attention");
  for (const int64_t size : {layout.tensor, layout.pipeline, layout.expert}) {
    if (size < 1 || size > 1 << 16) throw InputError(where, ": its 'args' say ", size, " parallel ranks");
  }
  const int64_t groups =
      arguments.IsTrue("group_query_attention") ? arguments.Integer("num_query_groups", layout.tensor) : layout.tensor;
  if (groups < layout.tensor && !layout.latent_attention)
    throw InputError(
        where, ": ", groups, " query groups over ", layout.tensor,
        " tensor-parallel ranks, which then hold copies of parts; save it with tensor_model_parallel_size of at most ",
        groups);
  const bool experts = arguments.Integer("num_experts", 0) > 0;
  if (experts && layout.expert_tensor != 1 && layout.expert_tensor != layout.tensor)
    throw InputError(where, ": expert_tensor_parallel_size ", layout.expert_tensor, " with tensor_model_parallel_size ",
                     layout.tensor, "; wanted 1 or the same");
  return layout;
}

std::string WholeName(const MegatronChunk& chunk, const std::string& name) {
  std::string common = CommonName(name);
  for (const std::string_view ending : {"_extra_state", "local_tokens_per_expert", "rotary_pos_emb.inv_freq"}) {
    if (common.ends_with(ending)) return "";
  }
  const auto layer = LayerOf(common);
  if (!layer) return common;
  return Concat(kLayers, chunk.layers.at(*layer), common.substr(common.find('.', kLayers.size())));
}

MegatronFiles OpenMegatronFiles(const std::filesystem::path& iteration) {
  MegatronFiles ranks;
  for (const std::filesystem::path& directory : RankDirectories(iteration)) {
    MegatronFile file{directory / kFile, {}, nullptr, nullptr, {}};
    OpenFile(file);
    RefuseOldVersion(file);
    if (!ranks.arguments) {
      ranks.arguments = ArgumentsOf(file);
      ranks.layout = LayoutOf(*ranks.arguments, file.path.string());
    }
    file.rank = RankOf(directory, ranks.layout);
    FindChunks(file);
    ranks.files.push_back(std::move(file));
  }
  RefuseMissingRanks(ranks, iteration);
  NumberLayers(ranks);
  const MegatronLayout& layout = ranks.layout;
  const int64_t groups = layout.expert * (layout.tensor_extends_expert ? layout.tensor : 1);
  ranks.local_experts = ranks.arguments->Integer("num_experts", 0) / groups;
  return ranks;
}

void ReadRankFiles(const std::filesystem::path& iteration, MegatronCheckpoint& result) {
  const MegatronFiles ranks = OpenMegatronFiles(iteration);
  result.arguments = ranks.arguments;
  for (const MegatronFile& file : ranks.files) {
    result.files.push_back(file.bytes);
    for (const MegatronChunk& chunk : file.chunks) {
      const std::vector<PickleValue*>& items = chunk.tensors->items;
      for (size_t i = 0; i + 1 < items.size(); i += 2) {
        const std::string name = WholeName(chunk, items[i]->text);
        if (name.empty()) continue;
        const auto tensor = file.file->TensorOf(*items[i + 1]);
        if (!tensor)
          throw InputError(file.path.string(), ": '", Printable(items[i]->text), "' is ", Describe(*items[i + 1]),
                           "; wanted a tensor");
        PlaceTensor(name, *tensor, file.path, ranks.layout, file.rank, ranks.local_experts, result.weights);
      }
    }
  }
}

}  // namespace trireme
