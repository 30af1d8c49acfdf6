#include "session/load_weights.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <regex>

#include "checkpoint/convert.h"
#include "checkpoint/fp8_blocks.h"
#include "checkpoint/value_head_names.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/rounding.h"
#include "core/io/crc32c.h"
#include "core/tensor/dtype.h"
#include "models/reward_model.h"
#include "session/known_tensors.h"
#include "session/pack_values.h"
#include "session/random_weights.h"

namespace trireme {
namespace {

// The tensor in the mapped file, not copied.
at::Tensor FileTensor(const TensorView& view) {
  return at::from_blob(const_cast<std::byte*>(view.bytes.data()), view.shape, at::TensorOptions(ToTorch(view.dtype)));
}

// What the elements of an fp8 matrix are multiplied with, in fp32: the scales of their blocks; of another tensor
// undefined.
at::Tensor Factors(const TensorSource& directory, const std::string& name, const std::string& where) {
  const TensorView matrix = directory.Describe(name);
  if (matrix.dtype != DType::kFp8E4M3) return {};
  const std::vector<float> scales = Fp8Scales(directory.Find(name + kFp8ScaleSuffix), matrix.shape, where);
  const auto blocks = [&](size_t dim) { return DivideUp(matrix.shape[dim], kFp8Block); };
  at::Tensor factors = at::tensor(scales, at::kFloat).view({blocks(0), blocks(1)});
  for (const int64_t dim : {0, 1})
    factors = factors.repeat_interleave(kFp8Block, dim).narrow(dim, 0, matrix.shape[dim]);
  return factors;
}

// A stack of matrices that files hold transposed, or as transformers 5 writes them: `shape` tells which.
HfTensor InStoredOrder(HfTensor tensor, const Shape& shape) {
  if (shape == tensor.box.extent && shape != tensor.shape) tensor = {tensor.name, shape, tensor.box};
  return tensor;
}

// Experts that the directory stores fused, [experts, out, in] or with the last two swapped, instead of
// separately as the parameter names them.
std::vector<HfTensor> AsStored(const Weights::Entry& entry, const TensorSource& directory) {
  static const std::regex one_by_one(R"((.*\.experts)\.0\.(gate|up|down)_proj\.weight)");
  std::smatch match;
  const std::vector<HfTensor>& named = entry.parameter.hf;
  if (named.size() == 1 && named.front().transposed && directory.Has(named.front().name)) {
    return {InStoredOrder(named.front(), directory.Describe(named.front().name).shape)};
  }
  if (directory.Has(named.front().name) || !std::regex_match(named.front().name, match, one_by_one)) return named;
  const std::string fused = match[1].str() + (match[2] == "down" ? ".down_proj" : ".gate_up_proj");
  if (!directory.Has(fused)) return named;
  const Shape whole = entry.placement.GlobalShape();
  const bool transposed = directory.Describe(fused).shape != whole;
  const Shape shape = transposed ? Shape{whole[0], whole[2], whole[1]} : whole;
  return {HfTensor{fused, shape, Box{{0, 0, 0}, whole}, transposed}};
}

void CopySlice(const TensorSource& directory, const SliceCopy& copy, const at::Tensor& local) {
  const HfTensor& source = *copy.source;
  const std::string where = directory.FileOf(source.name).string() + ": tensor '" + source.name + "'";
  const at::Tensor factors = Factors(directory, source.name, where);  // first: a view stays valid until the next Find
  const TensorView& view = directory.Find(source.name);
  if (view.shape != source.shape) {
    throw InputError(where, " is ", ShapeText(view.shape), "; the config requires ", ShapeText(source.shape));
  }
  if (view.dtype == DType::kInt8 || view.dtype == DType::kUint8) {
    throw InputError(where, " is in ", Name(view.dtype), " and the files have no scales of it, such as '",
                     Int8ScalesName(source.name), "'; look for the same model in bf16, or complete its files");
  }
  const at::Tensor whole = factors.defined() ? FileTensor(view).to(at::kFloat) * factors : FileTensor(view);
  const at::Tensor slice = whole.contiguous().as_strided(copy.extent, copy.file_strides, copy.file_offset);
  if (!slice.isfinite().all().item<bool>()) {
    throw InputError(where, " has values that are not finite; the file is damaged or the model diverged");
  }
  // The local tensor may be anywhere in a larger buffer, and as_strided counts from the start of that.
  local.as_strided(copy.extent, copy.local_strides, local.storage_offset() + copy.local_offset).copy_(slice);
}

// A box of the parameter into a tensor of its shape.
void LoadBox(const TensorSource& directory, const Weights::Entry& entry, const Box& box, const at::Tensor& local) {
  const std::vector<HfTensor> stored = AsStored(entry, directory);
  for (const SliceCopy& copy : BoxCopies(stored, box)) CopySlice(directory, copy, local);
}

bool IsAdded(const Weights::Entry& entry) { return entry.parameter.added; }
bool IsOwn(const Weights::Entry& entry) { return !entry.parameter.added; }
bool IsTrained(const Weights::Entry& entry) { return entry.parameter.trained; }
const std::string& FileName(const Weights::Entry& entry) { return entry.parameter.hf.front().name; }

std::vector<Weights::Entry*> EntriesOf(const Bucket& bucket, bool (*wanted)(const Weights::Entry&)) {
  std::vector<Weights::Entry*> entries;
  for (Weights::Entry* entry : bucket.entries()) {
    if (wanted(*entry)) entries.push_back(entry);
  }
  return entries;
}

}  // namespace

void LoadWeights(const TensorSource& directory, const std::vector<Weights::Entry*>& entries, int rank) {
  for (const Weights::Entry* entry : entries) {
    if (entry->weight.packed && TakePacked(*entry, directory)) continue;
    if (entry->weight.packed) {
      PackValues(*entry, [&](const Box& box, const at::Tensor& local) { LoadBox(directory, *entry, box, local); });
      continue;
    }
    Parameter stored = entry->parameter;
    stored.hf = AsStored(*entry, directory);
    for (const SliceCopy& copy : SliceCopies(stored, entry->placement, rank)) {
      CopySlice(directory, copy, entry->weight.value);
    }
  }
}

void RefuseExtraTensors(const HfDirectory& directory, const LayerGraph& graph) {
  if (HoldsAdapter(directory)) {
    throw InputError(directory.path().string(),
                     ": is an adapter's checkpoint, not a model's; set model.path to the base "
                     "model and tuning.adapters to this");
  }
  RefuseUnknownTensors(directory, graph);
}

int64_t CountUnused(const HfDirectory& directory, const LayerGraph& graph) {
  const std::vector<std::string> names = directory.Names();
  return std::count_if(names.begin(), names.end(), [&](const std::string& name) { return IsUnused(name, graph); });
}

void WarnOfUnequalCopies(const HfDirectory& directory, const LayerGraph& graph) {
  const auto digest = [&](const std::string& name) {
    const std::span<const std::byte> bytes = directory.Find(name).bytes;
    return Crc32c(bytes.data(), bytes.size());
  };
  for (const Layer& layer : graph.layers) {
    for (const auto& [role, copies] : layer.repeated) {
      const std::string& name = layer.hf_names.at(role);
      for (const std::string& copy : copies) {
        if (!directory.Has(copy) || digest(copy) == digest(name)) continue;
        TRIREME_LOG(WARNING) << directory.FileOf(copy).string() << ": '" << copy << "' differs from '" << name
                             << "', which is used instead and written under both names";
      }
    }
  }
}

namespace {

// The model's own weights, of which its files may lack those of graph.drawn.
void LoadOwn(const HfDirectory& files, const std::vector<Weights::Entry*>& entries, const LayerGraph& graph, int rank,
             const ValueSources& sources) {
  for (Weights::Entry* entry : entries) {
    const std::string& name = FileName(*entry);
    if (!graph.drawn.contains(name) || files.Has(name)) {
      LoadWeights(files, {entry}, rank);
    } else if (sources.value_head != nullptr && sources.value_head->Has(name)) {
      LoadWeights(*sources.value_head, {entry}, rank);
    } else {
      FillRandomWeights({entry}, rank, sources.seed);
    }
  }
}

// What an adapter trains. One that was trained without a value head leaves the model's as it is.
void LoadTrained(const TensorSource& adapter, std::vector<Weights::Entry*> entries, int rank) {
  std::erase_if(entries, [&](const Weights::Entry* entry) {
    const std::string& name = FileName(*entry);
    return (name == kScoreWeight || IsValueHead(name)) && !adapter.Has(name);
  });
  LoadWeights(adapter, entries, rank);
}

void FillBucket(const Bucket& bucket, const HfDirectory* files, const LayerGraph& graph, int rank,
                const ValueSources& sources) {
  const std::vector<Weights::Entry*> own = EntriesOf(bucket, &IsOwn);
  if (files != nullptr) {
    LoadOwn(*files, own, graph, rank, sources);
  } else {
    FillRandomWeights(own, rank, sources.seed);
    ZeroPaddingRow(own, graph, rank);
  }
  if (graph.adapter && sources.adapter != nullptr) {
    LoadTrained(*sources.adapter, EntriesOf(bucket, &IsTrained), rank);
  } else if (graph.adapter) {
    FillRandomWeights(EntriesOf(bucket, &IsAdded), rank, sources.seed);
  }
}

void SealLayer(std::vector<Bucket*>& layer, const AdapterStart* start) {
  std::vector<Weights::Entry*> entries;
  for (const Bucket* bucket : layer) entries.insert(entries.end(), bucket->entries().begin(), bucket->entries().end());
  if (start != nullptr) StartAdapters(entries, *start);
  for (Bucket* bucket : layer) bucket->SealValues();
  layer.clear();
}

}  // namespace

void FillBuckets(const std::vector<Bucket*>& buckets, const LayerGraph& graph, int rank, const ValueSources& sources) {
  std::optional<HfDirectory> files;
  if (!sources.directory.empty()) {
    files.emplace(sources.directory);
    RefuseExtraTensors(*files, graph);
    if (rank == 0) WarnOfUnequalCopies(*files, graph);
  }
  std::vector<Bucket*> layer;
  for (Bucket* bucket : buckets) {
    if (!layer.empty() && layer.front()->layer() != bucket->layer()) SealLayer(layer, sources.start);
    FillBucket(*bucket, files ? &*files : nullptr, graph, rank, sources);
    layer.push_back(bucket);
  }
  SealLayer(layer, sources.start);
}

}  // namespace trireme
