// `trireme translate FILE|COMMAND…`: a run of another system as a run.yaml.
#include <filesystem>
#include <iostream>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/problems.h"
#include "core/base/text.h"
#include "core/cli/command.h"
#include "core/comm/job.h"
#include "core/io/atomic_file.h"
#include "translate/model_shape.h"
#include "translate/translate.h"

namespace trireme {
namespace {

InputOptions OptionsOf(const Arguments& arguments) {
  InputOptions options{.from = arguments.has("from") ? arguments.value("from") : "", .defined = {}};
  for (const std::string& one : arguments.values("define")) {
    const size_t equals = one.find('=');
    if (equals == std::string::npos) throw InputError("--define ", one, ": wanted NAME=VALUE");
    options.defined[one.substr(0, equals)] = one.substr(equals + 1);
  }
  return options;
}

// DIR/config.json from the flags of the model's shape.
void WriteModelConfig(const FoundRun& run, const std::string& directory) {
  Translation unused;
  const std::string json = ModelConfigJson(run.given, FamilyOf(run.given, unused));
  const std::filesystem::path path = std::filesystem::path(directory) / "config.json";
  if (json.empty())
    throw InputError("--model ", directory,
                     ": the input has no flags of a model's shape, or of a family whose config.json is made");
  if (PathExists(path)) throw InputError(path.string(), ": exists already; name another directory");
  std::filesystem::create_directories(directory);
  WriteAtomicFile(path, json);
}

void RunTranslate(const Arguments& arguments, Job& job) {
  if (job.rank() != 0) return;
  const std::string to = arguments.has("to") ? arguments.value("to") : "";
  if (!to.empty() && PathExists(to)) throw InputError(to, ": exists already; name another file, or remove it");
  const FoundRun run = FindRun(arguments.values("FILE|COMMAND"), OptionsOf(arguments));
  const std::string model = arguments.has("model") ? arguments.value("model") : "";
  const Translation result =
      Translate(run, {.world = static_cast<int>(arguments.integer("world", 0, 1)), .model = model});
  if (!result.refused().empty() && !arguments.has("partial")) {
    Problems problems;
    for (const std::string& line : result.refused()) problems.Add(line);
    problems.ThrowIfAny();
  }
  if (!model.empty()) WriteModelConfig(run, model);
  const std::string yaml = result.Yaml(Concat(run.system->title, ", ", run.what));
  if (to.empty()) {
    std::cout << yaml;
    return;
  }
  WriteAtomicFile(to, yaml);
  std::cout << to << ": " << Counted(static_cast<int64_t>(result.warnings().size()), "difference") << ", "
            << Counted(static_cast<int64_t>(result.left_out().size()), "option") << " left out; both are at its end\n";
}

}  // namespace

Command TranslateCommand() {
  return {.name = "translate",
          .summary =
              "Translates a run of ms-swift, LLaMA-Factory, TRL, Megatron-LM, MindSpeed-LLM or verl into a run.yaml. "
              "Each line says where it came from; what has "
              "no meaning here is listed at its end, and what is missing here is refused by name.",
          .options = {{.name = "from",
                       .value_name = "SYSTEM",
                       .help = "whose run it is: swift, megatron-swift, llamafactory, trl, megatron, verl or verl-sft; "
                               "by default the input tells"},
                      {.name = "world",
                       .value_name = "N",
                       .help = "number of ranks; by default what the input says. A batch per "
                               "device is multiplied by it"},
                      {.name = "define",
                       .value_name = "NAME=VALUE",
                       .help = "a variable that the script takes from elsewhere; may "
                               "be repeated",
                       .repeatable = true},
                      {.name = "model",
                       .value_name = "DIR",
                       .help = "write DIR/config.json from Megatron's flags of the model's shape"},
                      {.name = "partial", .help = "write what can be translated, although something is refused"},
                      {.name = "to", .value_name = "FILE", .help = "the file to write; by default the terminal"}},
          .positionals = {{.name = "FILE|COMMAND",
                           .help = "a script, a YAML file, or the words of a command as they stand",
                           .repeatable = true,
                           .takes_options = true}},
          .run = RunTranslate};
}

}  // namespace trireme
