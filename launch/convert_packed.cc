#include "launch/convert_packed.h"

#include <filesystem>
#include <iostream>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "checkpoint/manifest.h"
#include "checkpoint/packed_files.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "launch/process_group.h"
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

PackedStorage StorageOf(const Arguments& arguments) {
  const std::string kind = arguments.value("quantise");
  if (kind != "nf4" && kind != "fp4") throw InputError("--quantise ", kind, ": wanted nf4 or fp4");
  const PackedStorage storage{.kind = kind == "nf4" ? PackedStorage::Kind::kNf4 : PackedStorage::Kind::kFp4,
                              .block = arguments.integer("quantise-block", 64, 1),
                              .nested = !arguments.has("quantise-flat")};
  if (IsPackedBlock(storage.block)) return storage;
  throw InputError("--quantise-block ", storage.block, "; wanted 32, 64, 128, … or 4096");
}

// What model.quantise packs, other than experts', which transformers has in one tensor that bitsandbytes leaves as it is.
PackOptions PackOptionsOf(const Arguments& arguments, LayerGraph graph) {
  PackOptions pack{.storage = StorageOf(arguments), .matrices = {}, .skipped = {}, .mean = MeanScale};
  PackBase(graph, pack.storage, {.key = "--quantise", .names = {}});
  std::set<std::string> skipped = {"lm_head"};
  for (const Layer& layer : graph.layers) {
    for (const Parameter& parameter : ParametersOf(graph, layer, {})) {
      if (!parameter.packed || parameter.declaration.grid == GridKind::kExpert) continue;
      for (const HfTensor& tensor : parameter.hf) pack.matrices.insert(tensor.name);
    }
    if (layer.hf_names.contains("shared_gate.weight")) skipped.insert("shared_expert_gate");
  }
  pack.skipped = {skipped.begin(), skipped.end()};
  return pack;
}

}  // namespace

std::vector<Option> PackingOptions() {
  return {{.name = "quantise",
           .value_name = "KIND",
           .help = "write a Hugging Face directory with matrices in 4 bits, nf4 or fp4, as bitsandbytes does"},
          {.name = "quantise-block", .value_name = "N", .help = "weights that share a scale; by default 64"},
          {.name = "quantise-flat", .help = "scales in fp32 instead of 8 bits"}};
}

void ConvertToPacked(const Arguments& arguments, const HfDirectory& source, LayerGraph graph, ConvertOptions options, Job& job) {
  if (arguments.has("verify")) throw InputError("--verify compares equal weights, which --quantise does not leave; leave one out");
  const PackOptions pack = PackOptionsOf(arguments, std::move(graph));
  options.pack = &pack;
  const std::string config = (source.path() / "config.json").string();
  const std::string text = source.store() != nullptr ? source.store()->manifest().model_config() : ReadTextFile(config);
  const DType compute = options.dtype.value_or(source.Describe(*pack.matrices.begin()).dtype);
  options.config = PackedConfig(text, config, pack, compute);
  const std::filesystem::path to = arguments.value("to");
  ExportHuggingFace(source, to, options, ProcessGroupOf(job));
  if (job.rank() != 0) return;
  std::cout << "wrote " << source.Names().size() << " tensors to " << to.string() << ", a Hugging Face directory with "
            << pack.matrices.size() << " of them in 4 bits\n";
}

}  // namespace trireme
