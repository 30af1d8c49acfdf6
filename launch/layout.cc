#include "launch/layout.h"

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/config/load.h"

namespace trireme {

Config ConfigOf(const Arguments& arguments) {
  if (arguments.has(kRunFile)) return LoadConfig(arguments.value(kRunFile), arguments.overrides());
  return ParseConfig("", "defaults", arguments.overrides());
}

Config ModelConfigOf(const Arguments& arguments, const std::string& adapters) {
  std::vector<std::string> said;
  if (!arguments.has(kRunFile)) said = {"tuning.kind=full", "tuning.dropout=0"};
  if (!adapters.empty()) {
    said.push_back("tuning.kind=lora");
    said.push_back("tuning.adapters=" + JsonLine(adapters));
  }
  for (const std::string& text : arguments.overrides()) said.push_back(text);
  Config config = arguments.has(kRunFile) ? LoadConfig(arguments.value(kRunFile), said)
                                          : ParseConfig("", "defaults", said);
  config.mutable_model()->set_path(arguments.value("model"));
  return config;
}

void RefuseToOverwrite(const std::string& option, const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) {
    throw InputError(option, " ", path, " already exists; remove it or choose another name");
  }
  if (!folder.empty() && !std::filesystem::is_directory(folder, ignored)) {
    throw InputError(option, " ", path, ": no such directory: ", folder.string());
  }
}

}  // namespace trireme
