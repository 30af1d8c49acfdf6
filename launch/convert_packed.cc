#include "launch/convert_packed.h"

#include <algorithm>
#include <numeric>
#include <regex>
#include <set>
#include <string>
#include <utility>

#include "checkpoint/packed_format.h"
#include "core/base/error.h"
#include "parallel/graph/parameters.h"
#include "parallel/graph/tuning.h"
#ifdef TRIREME_TORCH_VERSION
#include "session/pack_values.h"
#endif

namespace trireme {
namespace {

// With libtorch the sum has bitsandbytes' order, without it may differ in the last bit.
float MeanScale(std::vector<float>& scales) {
#ifdef TRIREME_TORCH_VERSION
  return MeanOfScales(scales);
#else
  return static_cast<float>(std::accumulate(scales.begin(), scales.end(), 0.0) / static_cast<double>(scales.size()));
#endif
}

std::unique_ptr<PackedWriter> WriterOf(const Arguments& arguments) {
  const std::string kind = arguments.value("quantise");
  const bool four_bits = kind == "nf4" || kind == "fp4";
  if (!four_bits && kind != "int8" && kind != "fp8")
    throw InputError("--quantise ", kind, ": wanted nf4, fp4, int8 or fp8");
  if (!four_bits && (arguments.has("quantise-block") || arguments.has("quantise-flat"))) {
    throw InputError("--quantise-block and --quantise-flat are for --quantise nf4 and fp4, and this is ", kind,
                     "; leave them out");
  }
  if (kind == "int8") return Int8Writer();
  if (kind == "fp8") return Fp8Writer();
  const PackedStorage storage{.kind = kind == "nf4" ? PackedStorage::Kind::kNf4 : PackedStorage::Kind::kFp4,
                              .block = arguments.integer("quantise-block", 64, 1),
                              .nested = !arguments.has("quantise-flat")};
  if (IsPackedBlock(storage.block)) return FourBitWriter(storage, MeanScale);
  throw InputError("--quantise-block ", storage.block, "; wanted 32, 64, 128, … or 4096");
}

Shape WholeShape(const Parameter& parameter) {
  Shape whole(parameter.hf.front().box.offset.size());
  for (const HfTensor& tensor : parameter.hf) {
    for (size_t d = 0; d < whole.size(); ++d)
      whole[d] = std::max(whole[d], tensor.box.offset[d] + tensor.box.extent[d]);
  }
  return whole;
}

// Where the source has an expert's matrix: under its own name, or in the stack of all of a layer, [experts, out, in].
// Nothing where the stack has its last two dims swapped.
std::optional<MatrixSlice> SliceOf(const Parameter& parameter, const HfTensor& tensor, const HfDirectory& source) {
  if (source.Has(tensor.name)) return MatrixSlice{tensor.name, 0, tensor.shape};
  static const std::regex one_by_one(R"((.*\.experts)\.[0-9]+\.(gate|up|down)_proj\.weight)");
  std::smatch match;
  if (!std::regex_match(tensor.name, match, one_by_one)) return std::nullopt;
  const std::string stack = match[1].str() + (match[2] == "down" ? ".down_proj" : ".gate_up_proj");
  const Shape whole = WholeShape(parameter);
  if (!source.Has(stack) || source.Describe(stack).shape != whole) return std::nullopt;
  const Shape strides = RowMajorStrides(whole);
  const Shape& at = tensor.box.offset;
  return MatrixSlice{stack, std::inner_product(at.begin(), at.end(), strides.begin(), int64_t{0}), tensor.shape};
}

std::string ModuleOf(const std::string& weight) { return weight.substr(0, weight.rfind('.')); }

std::string LastTwo(const std::string& module) {  // "mlp.gate" of "model.layers.3.mlp.gate"
  const size_t last = module.rfind('.');
  return last == std::string::npos ? module : module.substr(module.rfind('.', last - 1) + 1);
}

// Matrices that are no linear modules.
std::set<std::string> EmbeddingsOf(const LayerGraph& graph) {
  std::set<std::string> names;
  for (const Layer& layer : graph.layers) {
    for (const char* role : {"embedding.weight", "positions.weight"}) {
      if (const auto name = layer.hf_names.find(role); name != layer.hf_names.end()) names.insert(name->second);
    }
  }
  return names;
}

}  // namespace

std::vector<Option> PackingOptions() {
  return {
      {.name = "quantise",
       .value_name = "KIND",
       .help = "write a Hugging Face directory with matrices in few bits: nf4, fp4 or int8 as bitsandbytes does, fp8 "
               "as DeepSeek does"},
      {.name = "quantise-block", .value_name = "N", .help = "weights that share a scale; by default 64"},
      {.name = "quantise-flat", .help = "scales in fp32 instead of 8 bits"},
      {.name = "quantise-experts",
       .help = "experts, too, each as a module of its own, which transformers 5 does not load; fp8 always does so"}};
}

void RefuseLonePacking(const Arguments& arguments) {
  for (const char* name : {"quantise-block", "quantise-flat", "quantise-experts"}) {
    if (arguments.has(name)) throw InputError("--", name, " is for --quantise; set that, or leave it out");
  }
}

// What model.quantise packs. Experts only on request, for transformers has them in one tensor, which bitsandbytes
// leaves as it is.
Packing::Packing(const Arguments& arguments, const HfDirectory& source, LayerGraph graph, const TensorChange* change)
    : writer_(WriterOf(arguments)) {
  const bool fp8 = arguments.value("quantise") == "fp8";
  pack_.writer = writer_.get();
  PackBase(graph, {}, {.key = "--quantise", .names = {}});
  FindMatrices(source, graph, fp8 || arguments.has("quantise-experts"));
  if (pack_.matrices.empty())
    throw InputError(source.path().string(), ": --quantise: has no matrices that can be packed");
  if (fp8) RefusePackedAlready(source, change);
  FindSkipped(graph, change);
}

void Packing::FindMatrices(const HfDirectory& source, const LayerGraph& graph, bool experts) {
  for (const Layer& layer : graph.layers) {
    for (const Parameter& parameter : ParametersOf(graph, layer, {})) {
      if (!parameter.packed || (parameter.declaration.grid == GridKind::kExpert && !experts)) continue;
      for (const HfTensor& tensor : parameter.hf) {
        if (auto slice = SliceOf(parameter, tensor, source)) pack_.matrices[tensor.name] = *std::move(slice);
      }
    }
  }
}

// All other linear modules, which transformers would otherwise look for packed.
void Packing::FindSkipped(const LayerGraph& graph, const TensorChange* change) {
  std::set<std::string> skipped = {"lm_head"};
  const std::set<std::string> embeddings = EmbeddingsOf(graph);
  for (const Layer& layer : graph.layers) {
    for (const Parameter& parameter : ParametersOf(graph, layer, {})) {
      for (const auto& [name, shape, box, transposed, repeated] : parameter.hf) {
        const bool linear = shape.size() == 2 && name.ends_with(".weight") && !embeddings.contains(name);
        if (linear && !pack_.matrices.contains(name)) skipped.insert(SkippedName(ModuleOf(name)));
      }
    }
  }
  for (const std::string& name : change != nullptr ? change->Added() : std::vector<std::string>()) {
    if (name.ends_with(".weight")) skipped.insert(ModuleOf(name));
  }
  skipped_ = {skipped.begin(), skipped.end()};
}

// transformers takes a module's name that ends with it: the last two parts, for all layers together, or the whole where
// these would mean a packed module, too. Experts by the module of all of them.
std::string Packing::SkippedName(const std::string& module) const {
  static const std::regex expert(R"((.*\.experts)\.[0-9]+\..*)");
  std::smatch match;
  if (std::regex_match(module, match, expert)) return LastTwo(match[1].str());
  const std::string brief = LastTwo(module);
  const auto is_meant = [&](const auto& matrix) { return ModuleOf(matrix.first).ends_with(brief); };
  return std::ranges::any_of(pack_.matrices, is_meant) ? module : brief;
}

// An adapter changes some of them, which are then packed again.
void Packing::RefusePackedAlready(const HfDirectory& source, const TensorChange* change) const {
  std::optional<std::string> first;
  for (const auto& [name, slice] : pack_.matrices) {
    if (change != nullptr && change->Changes(slice.source)) return;
    if (!first && source.Describe(slice.source).dtype == DType::kFp8E4M3) first = name;
  }
  if (!first) return;
  throw InputError(source.path().string(), ": '", *first,
                   "' is in fp8 already; leave out --quantise to write it as it is");
}

void Packing::AddTo(ConvertOptions& options, const std::string& config, const HfDirectory& source) const {
  options.pack = &pack_;
  const DType own = source.Describe(pack_.matrices.begin()->second.source).dtype;
  const DType compute = options.dtype.value_or(own == DType::kFp8E4M3 ? DType::kBf16 : own);
  options.config = WithQuantisation(config, source.path().string(), writer_->Config(skipped_, compute));
}

}  // namespace trireme
