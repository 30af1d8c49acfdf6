// `trireme inspect`: what is in a path, by what the path is. A new kind is a file of its own and one line here.
#include <filesystem>
#include <iostream>

#include "core/base/error.h"
#include "core/cli/command.h"
#include "core/comm/job.h"
#include "core/config/load.h"
#include "launch/inspect_data.h"
#include "launch/inspect_tensors.h"

namespace trireme {
namespace {

void Inspect(const Arguments& arguments, Job& job) {
  if (job.rank() != 0) return;
  const std::filesystem::path path = arguments.value("PATH");
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored) && !IsData(path)) {
    throw InputError(path.string(), " is not there; write the path of a file or directory that is");
  }
  if (arguments.has("OTHER")) return InspectDifferences(path, arguments.value("OTHER"));
  if (HoldsTensors(path)) return InspectTensors(path, arguments.has("digests"));
  Config config = ParseConfig("", "--set", arguments.overrides());
  if (arguments.has("model")) config.mutable_model()->set_path(arguments.value("model"));
  if (IsData(path)) return InspectData(path, config, std::cout);
  throw InputError(path.string(),
                   ": is nothing that inspect knows; wanted a checkpoint, a run, a model or adapter directory, a "
                   ".safetensors file, or data (.jsonl, .json, .csv, .tsv, .txt, .bin with .idx)");
}

}  // namespace

Command InspectCommand() {
  return {.name = "inspect",
          .summary = "What is in a path: the tensors of a checkpoint, a model or adapter directory or a safetensors "
                     "file (for two paths, where they differ), the checkpoints of a run, or of data the first sample "
                     "as tokens, text and mask, and how long samples are.",
          .options = {{.name = "digests",
                       .help = "of tensors read everything: print the digest of each whole one, and hold a "
                               "checkpoint's pieces against theirs"},
                      {.name = "model",
                       .value_name = "DIR",
                       .help = "the model whose tokenizer and chat template read the data"}},
          .positionals = {{.name = "PATH", .help = "what to look at"},
                          {.name = "OTHER", .help = "tensors to compare it with", .required = false}},
          .takes_config = true,
          .run = Inspect};
}

}  // namespace trireme
