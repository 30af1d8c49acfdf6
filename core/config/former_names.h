// Keys that once had another name (schema.was of options.proto), which files and --set may still give. Read from
// config.proto; nothing here knows a key by name. What is written, printed and hinted at is always the present name.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace trireme {

// "save.every" for "run.save_every"; nothing if no key was ever called so.
std::optional<std::string> KeyFormerlyCalled(const std::string& name);

// The key itself, or the present name if it is a former one.
std::string PresentName(const std::string& key);

// "run.save_every", of all keys that had one.
std::vector<std::string> FormerNames();

}  // namespace trireme
