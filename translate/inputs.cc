#include "translate/inputs.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "translate/shell.h"
#include "translate/swift_prepared.h"

namespace trireme {
namespace {

using Words = std::vector<std::string>;

bool Has(const Words& words, const std::string& word) { return std::ranges::find(words, word) != words.end(); }

bool IsConfigFile(const std::string& path) {
  return path.ends_with(".yaml") || path.ends_with(".yml") || path.ends_with(".json");
}

// "sft" of "swift sft", "swift/cli/sft.py" and "-m swift.cli.sft".
struct Program {
  const System* system;
  std::string command;
  size_t at;  // of the first word after it
};

std::string Stem(const std::string& word) {
  std::string stem = std::filesystem::path(word).filename().string();
  if (stem.ends_with(".py")) stem.resize(stem.size() - 3);
  return stem.substr(stem.rfind('.') == std::string::npos ? 0 : stem.rfind('.') + 1);
}

std::optional<Program> ProgramAt(const Words& words, size_t at) {
  static const Words methods = {"sft", "pt", "rlhf"};
  const std::string& word = words[at];
  const std::string next = at + 1 < words.size() ? words[at + 1] : "";
  const std::string name = Stem(word);
  if (name == "swift" && Has(methods, next)) return Program{&SwiftSystem(), next, at + 2};
  if (name == "megatron" && Has(methods, next)) return Program{&MegatronSwiftSystem(), next, at + 2};
  if (word.find("swift") != std::string::npos && word.find("cli") != std::string::npos && Has(methods, name)) {
    const bool megatron = word.find("megatron") != std::string::npos;
    return Program{megatron ? &MegatronSwiftSystem() : &SwiftSystem(), name, at + 1};
  }
  static const Words trl = {"sft", "dpo", "kto", "grpo", "rloo", "reward"};
  if (name == "trl" && Has(trl, next)) return Program{&TrlSystem(), next, at + 2};
  if (word.find("trl/scripts/") != std::string::npos && Has(trl, name)) return Program{&TrlSystem(), name, at + 1};
  static const Words verl = {"main_ppo", "main_ppo_sync", "main_dapo", "fully_async_main"};
  if (Has(verl, name)) return Program{&VerlSystem(), "", at + 1};
  if (name == "sft_trainer" && word.find("verl") != std::string::npos) return Program{&VerlSftSystem(), "", at + 1};
  if (name == "pretrain_gpt" || name == "posttrain_gpt") return Program{&MegatronSystem(), name, at + 1};
  if ((name == "llamafactory-cli" || name == "lmf") && next == "train")
    return Program{&LlamaFactorySystem(), next, at + 2};
  return std::nullopt;
}

std::optional<Program> ProgramIn(const Words& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (const auto program = ProgramAt(words, i)) return program;
  }
  return std::nullopt;
}

// key=value words after a YAML file, as LLaMA-Factory and hydra take them.
void AddOverrides(const Words& words, Given& given) {
  Words options;
  for (const std::string& word : words) {
    const bool assigns = !word.starts_with("-") && word.find('=') != std::string::npos && options.empty();
    options.push_back(assigns ? "--" + word : word);
  }
  for (const Setting& setting : SettingsOf(options)) given.settings.push_back(setting);
}

// ms-swift's file for Ray has what the trainer is told in `train`, and beside it what the samplers are told.
void TakeTrainersOwn(Given& given) {
  const Setting* own = given.Find("train");
  if (own == nullptr) return;
  const std::vector<Setting> settings = SettingsOfYaml(own->value(), own->name);
  std::erase_if(given.settings, [](const Setting& one) {
    return one.name == "train" || one.name == "rollout" || one.name == "teacher" || one.name == "colocate_groups";
  });
  for (const Setting& setting : settings) {
    if (setting.name != "gpus") given.settings.push_back(setting);
  }
}

// A file as its user names it, or beside the script.
std::string FileOf(const std::string& name, const std::string& directory) {
  const std::filesystem::path beside = std::filesystem::path(directory) / name;
  return PathExists(name) || !PathExists(beside) ? name : beside.string();
}

Given GivenBy(const Words& words, const Program& program, const std::map<std::string, std::string>& environment,
              const std::string& directory = "") {
  Given given{
      program.command, Join(Words(words.begin(), words.begin() + static_cast<long>(program.at)), " "), environment, {}};
  Words rest(words.begin() + static_cast<long>(program.at), words.end());
  if (!rest.empty() && IsConfigFile(rest.front())) {
    given.settings = SettingsOfYaml(ReadTextFile(rest.front()), rest.front());
    rest.erase(rest.begin());
  }
  const auto config = std::ranges::find(rest, std::string("--config"));
  if (config != rest.end() && config + 1 != rest.end() && IsConfigFile(*(config + 1))) {
    given.settings = SettingsOfYaml(ReadTextFile(FileOf(*(config + 1), directory)), *(config + 1));
    rest.erase(config, config + 2);
    if (program.system == &MegatronSwiftSystem()) TakeTrainersOwn(given);
  }
  std::erase_if(given.settings,
                [](const Setting& one) { return one.name == "ENV"; });  // ms-swift's environment in a file
  if (program.system == &VerlSystem() || program.system == &VerlSftSystem()) {
    given.settings = SettingsOfHydra(rest);
  } else {
    AddOverrides(rest, given);
  }
  return given;
}

const System& SystemNamed(const std::string& name) {
  std::vector<std::string> known;
  for (const System* system : Systems()) {
    if (system->name == name) return *system;
    known.push_back(system->name);
  }
  throw InputError("--from ", name, ": wanted one of ", Join(known));
}

FoundRun FromConfigFile(const std::string& path, const InputOptions& options) {
  Given given{"sft", "", {}, SettingsOfYaml(ReadTextFile(path), path)};
  if (!options.from.empty()) return {&SystemNamed(options.from), given, path};
  if (given.Find("stage") || given.Find("finetuning_type") || given.Find("do_train"))
    return {&LlamaFactorySystem(), given, path};
  if (given.Find("tuner_type") || given.Find("train_type") || given.Find("rlhf_type")) {
    if (given.Find("rlhf_type")) given.command = "rlhf";
    return {&SwiftSystem(), given, path};
  }
  throw InputError(path, ": cannot tell whose keys these are; give --from with one of ",
                   Join(Systems(), ", ", [](const System* system) { return system->name; }));
}

bool SameSettings(const Given& one, const Given& other) {
  return std::ranges::equal(one.settings, other.settings, [](const Setting& left, const Setting& right) {
    return left.name == right.name && left.values == right.values;
  });
}

FoundRun FromScript(const std::string& path, const InputOptions& options) {
  std::optional<FoundRun> found;
  std::vector<Given> preparations;
  for (const ShellCommand& command : ReadScript(ReadTextFile(path), options.defined, path)) {
    if (PreparesData(command.words)) {
      const auto first = std::ranges::find(command.words, std::string("export"));
      preparations.push_back({"export", "", {}, SettingsOf(Words(first + 1, command.words.end())), {}});
    }
    const auto program = ProgramIn(command.words);
    if (!program) continue;
    const std::string what = Concat(path, ":", command.line);
    Given given =
        GivenBy(command.words, *program, command.environment, std::filesystem::path(path).parent_path().string());
    TakePreparedData(preparations, given);
    if (found && SameSettings(found->given, given)) continue;  // the same run on another node
    if (found) throw InputError(what, ": a second run after that in ", found->what, "; keep one per script");
    given.notes = command.notes;
    found = FoundRun{program->system, given, what};
  }
  if (!found)
    throw InputError(path,
                     ": no run is started in it that is known here: swift, megatron, llamafactory-cli train, trl, "
                     "pretrain_gpt.py or verl");
  if (!options.from.empty()) found->system = &SystemNamed(options.from);
  return *found;
}

}  // namespace

FoundRun FindRun(const std::vector<std::string>& words, const InputOptions& options) {
  if (words.size() == 1 && IsConfigFile(words.front())) return FromConfigFile(words.front(), options);
  if (words.size() == 1) return FromScript(words.front(), options);
  std::map<std::string, std::string> environment;
  Words command;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    const bool assigns = command.empty() && equals != std::string::npos && !word.starts_with("-");
    if (assigns) {
      environment[word.substr(0, equals)] = word.substr(equals + 1);
    } else {
      command.push_back(word);
    }
  }
  const auto program = ProgramIn(command);
  if (!program)
    throw InputError("'", Join(words, " ").substr(0, 60), "': no command of another system that is known here");
  return {program->system, GivenBy(command, *program, environment), "a command line"};
}

}  // namespace trireme
