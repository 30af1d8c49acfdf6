// AdapterNames: the LoRA adapters that requests may name, with the engine's id of each. Looked up by HTTP threads,
// changed by the service's thread when the engine has loaded or dropped one. Loads nothing itself.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

struct NamedAdapter {
  std::string name;
  std::string folder;   // the last component of its directory: paths of the server are nobody's business
  int64_t id = 0;       // the engine's
  int64_t created = 0;  // unix seconds
};

class AdapterNames {
 public:
  // The id that the name had before, if any.
  std::optional<int64_t> Set(const std::string& name, const std::string& directory, int64_t id);
  std::optional<int64_t> Remove(const std::string& name);

  std::optional<NamedAdapter> Find(const std::string& name) const;
  std::vector<NamedAdapter> All() const;  // by name

 private:
  mutable std::mutex mutex_;
  std::map<std::string, NamedAdapter> adapters_;
};

// The directory of an adapter that a client asks for: `path` below `allowed`, its adapter_config.json and weights, too.
// `..` and links may not lead out of it. A failure is an ApiError that names no path of the server.
std::string AllowedAdapterPath(const std::string& allowed, const std::string& path);

// Whether a name may be given to a model: 1 to 128 printable characters, no blanks.
bool IsModelName(const std::string& name);

}  // namespace trireme
