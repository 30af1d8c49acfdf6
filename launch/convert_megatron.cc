#include "launch/convert_megatron.h"

#include <algorithm>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>

#include "checkpoint/convert.h"
#include "checkpoint/manifest.h"
#include "checkpoint/megatron/checkpoint.h"
#include "checkpoint/megatron/export.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/config/load.h"
#include "launch/process_group.h"

namespace trireme {
namespace {

constexpr char kMegatron[] = "megatron";
const std::vector<std::string> kLayoutKeys = {"parallel.tensor", "parallel.pipeline",      "parallel.virtual_stages",
                                              "parallel.expert", "parallel.expert_tensor", "parallel.stage_layers"};

MegatronExport::Format FormatOf(const std::string& name) {
  if (name == "torch") return MegatronExport::Format::kTorch;
  if (name == "torch_dist") return MegatronExport::Format::kTorchDist;
  throw InputError("--to-megatron ", name, ": wanted torch or torch_dist");
}

// Other keys mean nothing to a file.
ParallelConfig FileLayout(const Arguments& arguments) {
  for (const std::string& setting : arguments.overrides()) {
    const std::string key = setting.substr(0, setting.find('='));
    if (std::ranges::find(kLayoutKeys, key) == kLayoutKeys.end())
      throw InputError("--set ", setting, ": a Megatron checkpoint is written with ", Join(kLayoutKeys), " alone");
  }
  return ParseConfig("", "defaults", arguments.overrides()).parallel();
}

bool UsesTransformerEngine(const Arguments& arguments) {
  const std::string name = arguments.value("transformer-impl", "local");
  if (name == "local" || name == "transformer_engine") return name != "local";
  throw InputError("--transformer-impl ", name, ": wanted local or transformer_engine, as in the Megatron run");
}

MegatronExport ExportOf(const Arguments& arguments, const HfDirectory& source, std::optional<DType> dtype) {
  const ParallelConfig parallel = FileLayout(arguments);
  MegatronExport options{.format = FormatOf(arguments.value("to-megatron")),
                         .layout = {.tensor = parallel.tensor(),
                                    .pipeline = parallel.pipeline(),
                                    .expert = parallel.expert(),
                                    .expert_tensor = parallel.expert_tensor()},
                         .virtual_stages = parallel.virtual_stages(),
                         .stage_layers = {parallel.stage_layers().begin(), parallel.stage_layers().end()},
                         .vocabulary_divisor = arguments.integer("make-vocab-size-divisible-by", 128, 1),
                         .transformer_engine = UsesTransformerEngine(arguments),
                         .dtype = dtype,
                         .replace = arguments.has("force")};
  options.config = source.store() != nullptr ? source.store()->manifest().model_config()
                                             : ReadTextFile((source.model_files() / "config.json").string());
  return options;
}

}  // namespace

std::vector<Option> MegatronOptions() {
  return {
      {.name = "to-megatron",
       .value_name = "FORMAT",
       .help = "write a Megatron checkpoint: torch or torch_dist, for the layout that --set parallel.… says"},
      {.name = "set",
       .value_name = "key=value",
       .help = "with --to-megatron: parallel.tensor, pipeline, virtual_stages, stage_layers, expert or "
               "expert_tensor of the Megatron run; by default one rank",
       .repeatable = true},
      {.name = "transformer-impl",
       .value_name = "NAME",
       .help = "with --to-megatron: local or transformer_engine, as in the Megatron run, whose tensors of the torch "
               "format have other names; by default local"},
      {.name = "make-vocab-size-divisible-by",
       .value_name = "N",
       .help = "with --to-megatron: as in the Megatron run; by default 128"}};
}

std::filesystem::path ConvertSource(const Arguments& arguments) {
  const std::string from = arguments.value("from"), directory = arguments.value("DIR");
  if (directory.empty()) {
    if (from != kMegatron || IsDirectory(from)) return from;
    throw InputError("--from megatron: wanted a directory after it: --from megatron DIR");
  }
  if (from != kMegatron)
    throw InputError("--from ", from, " ", directory, ": wanted --from DIR, or --from megatron DIR");
  if (!IsDirectory(directory)) throw InputError("--from megatron ", directory, ": no such directory");
  if (IsMegatron(directory)) return directory;
  throw InputError("--from megatron ", directory,
                   ": is not a Megatron checkpoint, which has latest_checkpointed_iteration.txt, mp_rank_… directories "
                   "or .metadata; for another kind leave the word out: --from ",
                   directory);
}

void RefuseLoneMegatronOptions(const Arguments& arguments) {
  for (const Option& option : MegatronOptions()) {
    if (option.name != "to-megatron" && arguments.has(option.name))
      throw InputError("--", option.name, " is for --to-megatron; leave it out");
  }
}

void ConvertToMegatron(const Arguments& arguments, const HfDirectory& source, std::optional<DType> dtype, Job& job) {
  for (const char* other : {"as", "quantise", "shard-bytes", "experts-apart", "verify"}) {
    if (arguments.has(other)) throw InputError("--", other, " is not for --to-megatron; leave it out");
  }
  if (HoldsAdapter(source))
    throw InputError(source.path().string(), ": is an adapter's checkpoint; trireme merge makes a model of it first");
  if (source.has_few_bits())
    throw InputError(source.path().string(), ": its weights are in 4 or 8 bits, which Megatron does not load");
  const MegatronExport options = ExportOf(arguments, source, dtype);
  const std::filesystem::path to = arguments.value("to");
  ExportMegatron(source, to, options, ProcessGroupOf(job));
  if (job.rank() != 0) return;
  std::cout << "wrote " << source.Names().size() << " tensors to " << to.string() << ", a Megatron checkpoint for "
            << MegatronFlags(options) << "\n";
}

}  // namespace trireme
