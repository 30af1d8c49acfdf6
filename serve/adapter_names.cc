#include "serve/adapter_names.h"

#include <algorithm>
#include <filesystem>

#include "core/base/clock.h"
#include "web/http/http.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

bool IsBelow(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

[[noreturn]] void RefusePath(const std::string& why) {
  throw ApiError{.message = "lora_path: " + why, .param = "lora_path", .code = "invalid_value"};
}

}  // namespace

std::optional<int64_t> AdapterNames::Set(const std::string& name, const std::string& directory, int64_t id) {
  const fs::path path = fs::path(directory).lexically_normal();
  const std::lock_guard lock(mutex_);
  const auto found = adapters_.find(name);
  const auto before = found == adapters_.end() ? std::nullopt : std::optional(found->second.id);
  adapters_[name] = {.name = name,
                     .folder = (path.has_filename() ? path : path.parent_path()).filename().string(),
                     .id = id,
                     .created = UnixSeconds()};
  return before;
}

std::optional<int64_t> AdapterNames::Remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = adapters_.find(name);
  if (found == adapters_.end()) return std::nullopt;
  const int64_t id = found->second.id;
  adapters_.erase(found);
  return id;
}

std::optional<NamedAdapter> AdapterNames::Find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = adapters_.find(name);
  return found == adapters_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<NamedAdapter> AdapterNames::All() const {
  const std::lock_guard lock(mutex_);
  std::vector<NamedAdapter> all;
  for (const auto& [name, adapter] : adapters_) all.push_back(adapter);
  return all;
}

std::string AllowedAdapterPath(const std::string& allowed, const std::string& path) {
  std::error_code error;
  const fs::path folder = fs::canonical(allowed, error);
  if (error || path.empty() || path.find('\0') != std::string::npos) RefusePath("wanted an adapter's folder");
  const fs::path found = fs::canonical(folder / path, error);  // an absolute path replaces the folder
  if (error || !IsBelow(found, folder)) {
    RefusePath("there is no such folder below the directory that this server loads adapters from");
  }
  for (const auto& entry : fs::recursive_directory_iterator(found, error)) {
    std::error_code broken;
    const fs::path file = fs::canonical(entry.path(), broken);
    if (broken || !IsBelow(file, folder)) RefusePath("has a link that leads elsewhere");
  }
  if (error) RefusePath("is not a folder that can be read");
  return found.string();
}

bool IsModelName(const std::string& name) {
  return !name.empty() && name.size() <= 128 &&
         std::ranges::all_of(name, [](char letter) { return letter > ' ' && letter < 127 && letter != '='; });
}

}  // namespace trireme
