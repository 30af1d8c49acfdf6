#include "translate/swift_rewards.h"

#include <map>
#include <regex>
#include <sstream>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"

namespace trireme {
namespace {

struct PluginClass {
  std::string file, name;
};
using PluginClasses = std::map<std::string, PluginClass>;  // by the name that reward_funcs has

// Lines such as orms['my_reward'] = MyReward; one that is indented is an example in a comment, or may not be run.
void AddRewardClasses(const std::string& file, PluginClasses& classes) {
  static const std::regex registration(R"re(^orms\[['"]([^'"]+)['"]\]\s*=\s*(\w+)\s*(#.*)?$)re");
  std::istringstream lines(ReadTextFile(file));
  std::smatch found;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_match(line, found, registration)) classes[found[1]] = {file, found[2]};
  }
}

// What a plug-in changes besides rewards without being named in an option.
std::string RegisteredBesides(const std::string& text) {
  for (const char* function : {"register_dataset", "register_model", "register_template"}) {
    if (text.find(std::string(function) + "(") != std::string::npos) return function;
  }
  return "";
}

PluginClasses ClassesOf(const Setting& plugins, Translation& result) {
  PluginClasses classes;
  for (const std::string& file : plugins.values) {
    if (!PathExists(file)) {
      result.Refuse(plugins.origin,
                    Concat("cannot read ", file, ", which says what the names of its rewards stand for"));
      continue;
    }
    const std::string besides = RegisteredBesides(ReadTextFile(file));
    if (!besides.empty()) {
      result.Refuse(plugins.origin, Concat(file, " calls ", besides, ": data, models and templates in Python"));
      continue;
    }
    AddRewardClasses(file, classes);
  }
  return classes;
}

// A plug-in from which no reward is taken is there for something else.
void RefuseOtherUses(const Setting& plugins, const PluginClasses& taken, Translation& result) {
  for (const std::string& file : plugins.values) {
    bool used = !PathExists(file);  // refused already
    for (const auto& [name, one] : taken) used = used || one.file == file;
    if (!used)
      result.Refuse(plugins.origin, Concat("no reward of reward_funcs is of ", file,
                                           "; other Python of another system is never run (rl.environment takes a "
                                           "program)"));
  }
}

}  // namespace

void SetSwiftRewards(const Given& given, Translation& result) {
  const Setting* functions = given.Find("reward_funcs");
  const Setting* plugins = given.Find("external_plugins");
  const Setting* models = given.Find("reward_model");
  if (plugins != nullptr && plugins->off()) plugins = nullptr;
  const size_t refused = result.refused().size();
  if (plugins != nullptr && functions == nullptr) {
    result.Refuse(plugins->origin,
                  "Python of another system is never run but for rewards; rl.environment takes a program");
    plugins = nullptr;
  }
  const PluginClasses classes = plugins != nullptr ? ClassesOf(*plugins, result) : PluginClasses{};
  const bool readable = result.refused().size() == refused;
  PluginClasses taken;
  std::vector<std::string> rewards;
  std::string origin;
  if (functions != nullptr) {
    origin = functions->origin;
    for (const std::string& name : functions->values) {
      const auto found = classes.find(name);
      if (found != classes.end()) taken.insert(*found);
      rewards.push_back(found == classes.end() ? name : Concat("python:", found->second.file, ":", found->second.name));
    }
  }
  if (models != nullptr && !models->off()) {
    origin += (origin.empty() ? "" : ", ") + models->origin;
    for (const std::string& directory : models->values) rewards.push_back("model:" + directory);
  }
  if (plugins != nullptr && readable) RefuseOtherUses(*plugins, taken, result);
  if (!taken.empty())
    result.Warn(
        plugins->origin,
        "its reward classes are run by python3 beside the program, which needs what the file imports; what else "
        "it registers is not there");
  if (!rewards.empty()) result.Set("rl.rewards", rewards, origin);
}

}  // namespace trireme
