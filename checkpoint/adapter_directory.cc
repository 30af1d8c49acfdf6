#include "checkpoint/adapter_directory.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>
#include <utility>

#include <re2/re2.h>

#include "checkpoint/elements.h"
#include "checkpoint/manifest.h"
#include "checkpoint/memory_names.h"
#include "checkpoint/value_head_names.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/nearest.h"

namespace trireme {
namespace {

constexpr std::string_view kPeftPrefix = kAdapterPrefix;
constexpr std::string_view kFirst = ".lora_A.weight", kSecond = ".lora_B.weight";
constexpr std::string_view kMagnitude = ".lora_magnitude_vector";
constexpr std::string_view kEmbeddingFirst = ".lora_embedding_A", kEmbeddingSecond = ".lora_embedding_B";

// The name before `ending`; empty if the name does not end with it.
std::string Before(const std::string& name, std::string_view ending) {
  return name.ends_with(ending) ? name.substr(0, name.size() - ending.size()) : "";
}

// The scale is alpha / r: tensors of another rank than the config's would be scaled wrongly, and PEFT refuses them.
void CheckAdapterRank(const std::string& where, const Shape& a, const Shape& b, int64_t rank) {
  if (a.size() == 2 && b.size() == 2 && a[0] == rank && b[1] == rank) return;
  throw InputError(where, ": A ", ShapeText(a), " and B ", ShapeText(b), " are of another rank; its config says ", rank,
                   " (r, rank_pattern)");
}

}  // namespace

std::optional<AdapterTensorNames> AdapterTensorNamesOf(const std::string& name) {
  for (const auto& [a, b, embedding] :
       {std::tuple{kFirst, kSecond, false}, std::tuple{kEmbeddingFirst, kEmbeddingSecond, true}}) {
    std::string module = name.ends_with(a) ? Before(name, a) : Before(name, b);
    if (module.empty() && !embedding) module = Before(name, kMagnitude);
    if (module.empty()) continue;
    return AdapterTensorNames{module, module + std::string(a), module + std::string(b), embedding,
                              module + std::string(kMagnitude)};
  }
  return std::nullopt;
}

// The two adapters of a layer's experts. Which of the two is nested in the other depends on the order in which
// PEFT wrapped them.
struct AdapterDirectory::FusedExperts {
  std::map<bool, TensorView> a, b;  // by whether it is the inner adapter
};

AdapterDirectory::AdapterDirectory(const std::filesystem::path& directory, const ExpertNames& experts, AdapterForm form)
    : directory_(directory), experts_(experts) {
  if (IsCheckpoint(directory)) {
    OpenCheckpoint(form);
    return;
  }
  const std::string config = (directory / kAdapterConfigFile).string();
  config_ = std::make_unique<AdapterConfig>(ReadTextFile(config), config);
  if (!config_->init().empty()) {
    throw InputError(config, ": init_lora_weights is \"", config_->init(),
                     "\": the adapter belongs beside weights that have lost what it started from; save it as plain "
                     "LoRA (PEFT's path_initial_model_for_weight_conversion)");
  }
  file_ = std::make_unique<SafetensorsFile>(directory / kAdapterWeightsFile);
  ReadFile();
}

void AdapterDirectory::OpenCheckpoint(AdapterForm form) {
  const std::string where = directory_.string();
  files_ = std::make_unique<HfDirectory>(directory_);
  const std::string& text = files_->store()->manifest().adapter_config();
  if (text.empty()) throw InputError(where, ": is a checkpoint of a model, not of an adapter");
  config_ = std::make_unique<AdapterConfig>(text, where);
  if (config_->init().empty() || form == AdapterForm::kAsTrained) return;
  config_ = std::make_unique<AdapterConfig>(DoubledConfigText(text, where), where);
  for (const std::string& name : files_->Names()) {
    const std::optional<AdapterTensorNames> adapter = AdapterTensorNamesOf(name);
    if (adapter && name == adapter->a) DoubleAdapter(*adapter);
  }
}

// W - s B₀A₀ + s BA is the model's weight plus s [B, -B₀] [A; A₀].
void AdapterDirectory::DoubleAdapter(const AdapterTensorNames& adapter) {
  views_[adapter.a] = Doubled(adapter.a, /*stacked=*/true);
  views_[adapter.b] = Doubled(adapter.b, /*stacked=*/false);
}

// With its start below it; or with the negated one at its right.
TensorView AdapterDirectory::Doubled(const std::string& name, bool stacked) {
  const TensorView& trained = files_->Find(name);
  StoreReader& store = *files_->store();
  const int64_t rows = trained.shape.at(0), columns = trained.shape.at(1);
  const DType dtype = trained.dtype;
  std::vector<std::byte>& memory = memory_.emplace_back(2 * trained.bytes.size());
  const Shape strides = stacked ? Shape{columns, 1} : Shape{2 * columns, 1};
  void* second = Advance(static_cast<void*>(memory.data()), dtype, stacked ? rows * columns : columns);
  CopyBox(trained.shape, {dtype, trained.bytes.data(), {columns, 1}}, {dtype, memory.data(), strides});
  const auto count = static_cast<size_t>(rows * columns);
  std::vector<float> start(count);
  store.Read(store.Find(Concat(kInitialState, "/", name)), {{0, 0}, trained.shape},
             {DType::kFp32, start.data(), {columns, 1}});
  if (!stacked) std::ranges::transform(start, start.begin(), std::negate());
  CopyBox(trained.shape, {DType::kFp32, start.data(), {columns, 1}}, {dtype, second, strides});
  return {dtype, stacked ? Shape{2 * rows, columns} : Shape{rows, 2 * columns}, memory};
}

void AdapterDirectory::ReadFile() {
  static const RE2 of_experts(R"((.*\.experts)(\.base_layer)?\.lora_([AB])\.weight)");
  std::map<std::string, FusedExperts> fused;
  for (const auto& [name, view] : file_->tensors()) {
    if (!name.starts_with(kPeftPrefix)) {
      throw InputError(file_->path().string(), ": '", name, "' does not start with ", kPeftPrefix);
    }
    if (!CanConvert(view.dtype, DType::kFp32)) {
      throw InputError(file_->path().string(), ": '", name, "' has the unsupported dtype ", Name(view.dtype));
    }
    std::string plain = name.substr(kPeftPrefix.size());
    if (experts_.older_names) plain = NameInOlderFiles(plain, experts_.internvl);
    if (experts_.newer_names) plain = NameInMemory(plain);
    const size_t block = plain.find(".mlp.");
    if (block != std::string::npos) plain.replace(block + 1, 3, experts_.block);
    std::string stem, inner, matrix;
    if (RE2::FullMatch(plain, of_experts, &stem, &inner, &matrix)) {
      FusedExperts& layer = fused[stem];
      (matrix == "A" ? layer.a : layer.b)[!inner.empty()] = view;
    } else {
      Take(plain, view);
    }
  }
  for (const auto& [stem, layer] : fused) Split(stem, layer);
  if (views_.empty()) throw InputError(file_->path().string(), ": has no tensors");
}

void AdapterDirectory::Take(const std::string& name, const TensorView& view) {
  // An adapted embedding includes its base weight as PEFT wraps it.
  constexpr std::string_view kWrapped = ".base_layer.weight";
  const std::string wrapped = Before(name, kWrapped);
  const bool unknown = name.find("lora_") != std::string::npos || name.find("token_adapter") != std::string::npos;
  if (!AdapterTensorNamesOf(name) && unknown) {
    throw InputError(
        file_->path().string(), ": '", name,
        "' is not supported; only lora_A, lora_B and lora_magnitude_vector of linear and embedding weights are");
  }
  if (config_->ties() && name == kTiedHead) return;  // a copy of the embedding
  views_[wrapped.empty() ? name : wrapped + ".weight"] = view;
}

void AdapterDirectory::Split(const std::string& stem, const FusedExperts& fused) {
  for (const auto& [inner, a] : fused.a) {
    const auto b = fused.b.find(inner);
    if (b == fused.b.end() || a.shape.size() != 2 || b->second.shape.size() != 2) {
      throw InputError(file_->path().string(), ": '", stem, "': A or B of its experts is missing or not a matrix");
    }
    // gate_up reads the hidden size and down produces it: the output size of one is the input size of the
    // other.
    const auto other = fused.a.find(!inner);
    const bool gate_up = other != fused.a.end() ? other->second.shape[1] * 2 == b->second.shape[0]
                                                : config_->TargetsParameter("gate_up_proj");
    SplitFused(stem, a, b->second, gate_up);
  }
}

// One expert's part of both tensors.
struct AdapterDirectory::Part {
  int64_t experts = 0, expert = 0;
  int64_t ranks = 0, first_rank = 0, rank = 0;  // per expert in the tensors, and those of the part
  int64_t first_row = 0, rows = 0;              // of B
};

// A is [experts, rank, in] and B [out, rank, experts], each with two dims flattened into one. Gate and up
// read all ranks, or half of them each if the file's metadata says so.
void AdapterDirectory::SplitFused(const std::string& stem, const TensorView& a, const TensorView& b, bool gate_up) {
  const std::string module = stem + (gate_up ? ".gate_up_proj" : ".down_proj");
  const auto rank = static_cast<int64_t>(config_->RankOf(module));
  const auto said = file_->metadata().find(kGateUpKey);
  const bool blocks = gate_up && said != file_->metadata().end() && said->second == kGateUpBlocks;
  if (rank < 1 || a.shape[0] % rank != 0 || b.shape[1] != a.shape[0] || (gate_up && b.shape[0] % 2 != 0) ||
      (blocks && rank % 2 != 0)) {
    throw InputError(file_->path().string(), ": '", module, "': A ", ShapeText(a.shape), " and B ", ShapeText(b.shape),
                     " do not hold experts of rank ", rank);
  }
  const std::vector<std::string> words = gate_up ? std::vector{experts_.gate, experts_.up} : std::vector{experts_.down};
  const auto count = static_cast<int64_t>(words.size());
  Part part{.experts = a.shape[0] / rank, .ranks = rank, .rank = blocks ? rank / 2 : rank};
  part.rows = b.shape[0] / count;
  // Keeps the scale unchanged.
  const double share = config_->rslora() ? std::sqrt(0.5) : 0.5;
  const double alpha = config_->AlphaOf(module) * (blocks ? share : 1);
  for (; part.expert < part.experts; ++part.expert) {
    for (int64_t i = 0; i < count; ++i) {
      const std::string name = Concat(stem, ".", part.expert, ".", words[static_cast<size_t>(i)]);
      part.first_row = i * part.rows;
      part.first_rank = blocks ? i * part.rank : 0;
      alphas_[name] = std::round(alpha * 1e6) / 1e6;  // undoes rounding: 16 stays 16 after a square root
      TakePart(name, a, b, part);
    }
  }
  if (blocks) {
    for (const std::string& word : words) DropEmptyBlock(stem, word, part.experts);
  }
}

// A projection that had no adapter when the file was written has zeros in both matrices.
void AdapterDirectory::DropEmptyBlock(const std::string& stem, const std::string& word, int64_t experts) {
  std::vector<std::string> names;
  for (int64_t expert = 0; expert < experts; ++expert) {
    for (const std::string_view matrix : {kFirst, kSecond}) {
      names.push_back(Concat(stem, ".", expert, ".", word, matrix));
      const std::span<const std::byte> bytes = views_.at(names.back()).bytes;
      if (std::any_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte != std::byte{}; })) return;
    }
  }
  for (const std::string& name : names) views_.erase(name);
}

// B's columns of one expert are `experts` apart.
void AdapterDirectory::TakePart(const std::string& name, const TensorView& a, const TensorView& b, const Part& part) {
  const int64_t in = a.shape[1], first = part.expert * part.ranks + part.first_rank;
  const auto row_bytes = static_cast<size_t>(in * ByteSize(a.dtype));
  views_[name + std::string(kFirst)] = {
      a.dtype,
      {part.rank, in},
      a.bytes.subspan(static_cast<size_t>(first) * row_bytes, static_cast<size_t>(part.rank) * row_bytes)};
  memory_.emplace_back(static_cast<size_t>(part.rows * part.rank * ByteSize(b.dtype)));
  const int64_t place = part.first_row * b.shape[1] + part.first_rank * part.experts + part.expert;
  CopyBox({part.rows, part.rank}, {b.dtype, Advance(b.bytes.data(), b.dtype, place), {b.shape[1], part.experts}},
          {b.dtype, memory_.back().data(), {part.rank, 1}});
  views_[name + std::string(kSecond)] = {b.dtype, {part.rows, part.rank}, memory_.back()};
}

AdapterPlan AdapterDirectory::Plan() const {
  AdapterPlan plan{.modules = {},
                   .rslora = config_->rslora(),
                   .tied = config_->ties(),
                   .init = config_->init(),
                   .dora = config_->dora()};
  for (const std::string& name : Names()) {
    const std::optional<AdapterTensorNames> adapter = AdapterTensorNamesOf(name);
    if (!adapter) {
      plan.saved.insert(name.substr(0, name.rfind('.')));
      continue;
    }
    if (!Has(adapter->a) || !Has(adapter->b)) {
      throw InputError(FileOf(name).string(), ": '", adapter->module, ".weight': its A or B is missing");
    }
    if (Has(adapter->magnitude) != plan.dora) {
      throw InputError(FileOf(name).string(), ": '", adapter->magnitude, "' is ", plan.dora ? "missing" : "there",
                       ", but use_dora of its config is ", plan.dora ? "true" : "false");
    }
    const auto alpha = alphas_.find(adapter->module);  // of experts that files fuse, whose ranks are checked by then
    plan.modules[adapter->module] = {
        .rank = Describe(adapter->a).shape.at(0),
        .alpha = alpha == alphas_.end() ? config_->AlphaOf(adapter->module) : alpha->second};
    if (alpha == alphas_.end()) {
      CheckAdapterRank(FileOf(name).string() + ": '" + adapter->module + ".weight'", Describe(adapter->a).shape,
                       Describe(adapter->b).shape, static_cast<int64_t>(config_->RankOf(adapter->module)));
    }
  }
  return plan;
}

std::vector<std::string> AdapterDirectory::Names() const {
  std::vector<std::string> names;
  if (files_) {
    names = files_->Names();
    std::erase_if(names, IsValueHead);
    return names;
  }
  for (const auto& [name, view] : views_) names.push_back(name);
  return names;
}

const TensorView& AdapterDirectory::Find(const std::string& name) const {
  const auto found = views_.find(name);
  if (found != views_.end()) return found->second;
  if (files_) return files_->Find(name);
  const auto nearest = Nearest(name, Names());
  throw InputError(file_->path().string(), ": tensor '", name, "' is missing",
                   nearest ? Concat("; nearest: '", *nearest, "'") : "");
}

TensorView AdapterDirectory::Describe(const std::string& name) const {
  return files_ && !views_.contains(name) ? files_->Describe(name) : Find(name);
}

std::filesystem::path AdapterDirectory::FileOf(const std::string& name) const {
  return files_ ? files_->FileOf(name) : file_->path();
}

}  // namespace trireme
