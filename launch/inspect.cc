// `trireme inspect`: what a path contains. A new kind of path is one file and one line
// here.
#include <filesystem>
#include <iostream>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/cli/command.h"
#include "core/comm/job.h"
#include "core/config/load.h"
#include "data/hub/hub_set_name.h"
#include "data/records.h"
#include "launch/hub_data.h"
#include "launch/inspect_data.h"
#include "launch/inspect_rollouts.h"
#include "launch/inspect_tensors.h"
#include "launch/layout.h"
#include "web/hub/hub_cache.h"

namespace trireme {
namespace {

bool IsRunFile(const std::filesystem::path& path) {
  std::error_code ignored;
  const bool yaml = path.extension() == ".yaml" || path.extension() == ".yml";
  return yaml && std::filesystem::is_regular_file(path, ignored);
}

// From RUN.yaml, which either argument may be, and --set; --model overrides model.path.
DataLook LookOf(const Arguments& arguments) {
  DataLook look{.config = {}, .sample = arguments.integer("sample", 1, 1)};
  std::string run;
  for (const char* name : {"PATH", "OTHER"}) {
    if (IsRunFile(arguments.value(name))) run = arguments.value(name);
  }
  look.config = run.empty() ? ParseConfig("", "--set", arguments.overrides()) : LoadConfig(run, arguments.overrides());
  if (arguments.has("model")) look.config.mutable_model()->set_path(arguments.value("model"));
  look.config = WithModelDirectories(std::move(look.config), ModelDirectory);
  return look;
}

// All data of a run, downloaded where it is on a hub.
void InspectHere(const DataLook& look) {
  HaveHubData(look.config);
  InspectRunData(look, std::cout);
}

// A bare OWNER/NAME is more likely a path that was mistyped.
bool IsHubData(const std::string& path) {
  const auto name = ParseHubSetName(path.substr(0, path.find_last_of("#@")));
  return name && name->hub != SetHub::kDefault;
}

void InspectHubData(const std::string& name, DataLook look) {
  look.config.mutable_data()->clear_train();
  look.config.mutable_data()->clear_valid();
  look.config.mutable_data()->add_train(name);
  InspectHere(look);
}

void Inspect(const Arguments& arguments, Job& job) {
  if (job.rank() != 0) return;
  const std::filesystem::path path = arguments.value("PATH");
  const bool by_run = IsRunFile(arguments.value("OTHER"));
  if (IsHubData(path.string())) return InspectHubData(path.string(), LookOf(arguments));
  if (!PathExists(path) && !IsData(path)) {
    throw InputError(path.string(), " does not exist; give the path of a file or directory");
  }
  if (arguments.has("OTHER") && !by_run) return InspectDifferences(path, arguments.value("OTHER"));
  if (HoldsTensors(path)) return InspectTensors(path, arguments.has("digests"));
  if (IsRunFile(path)) return InspectHere(LookOf(arguments));
  if (HoldsRollouts(path)) return InspectRollouts(path, arguments.integer("sample", 1, 1), std::cout);
  if (IsData(path)) return InspectData(path, LookOf(arguments), std::cout);
  throw InputError(path.string(),
                   ": is not of a known kind; wanted a checkpoint, a run, a model or adapter directory, a "
                   ".safetensors file, data (",
                   RecordEndings(), ", .bin with .idx), or a RUN.yaml");
}

}  // namespace

Command InspectCommand() {
  return {
      .name = "inspect",
      .summary =
          "What is in a path: the tensors of a checkpoint, a model or adapter directory or a safetensors "
          "file (for two paths, where they differ), the checkpoints of a run, or for data a sample as "
          "tokens, text and mask, the lengths of samples, and what a run would skip.",
      .options = {{.name = "digests",
                   .help = "for tensors: read everything, print the digest of each tensor, and verify a "
                           "checkpoint's pieces against theirs"},
                  {.name = "model",
                   .value_name = "DIR",
                   .help = "the model whose tokenizer and chat template read the data; overrides model.path"},
                  {.name = "sample",
                   .value_name = "N",
                   .help = "for data: show the N-th sample; by default the first"}},
      .positionals =
          {{.name = "PATH",
            .help =
                "what to inspect; a RUN.yaml stands for all data of the run, hf::OWNER/NAME for a data set of a hub"},
           {.name = "OTHER",
            .help = "tensors to compare it with; for data, the RUN.yaml to read it by",
            .required = false}},
      .takes_config = true,
      .run = Inspect};
}

}  // namespace trireme
