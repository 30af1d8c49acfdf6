#include "checkpoint/stale_parts.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <system_error>

#include "core/io/file_system.h"

namespace trireme {
namespace {

bool IsNumber(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

// "checkpoint-20.part", "final.part"
bool IsFolderAside(const std::string& name) {
  constexpr std::string_view kEnd = ".part", kCheckpoint = "checkpoint-";
  if (!name.ends_with(kEnd)) return false;
  const std::string whole = name.substr(0, name.size() - kEnd.size());
  return whole == "final" || (whole.starts_with(kCheckpoint) && IsNumber(whole.substr(kCheckpoint.size())));
}

// "run.yaml.part-4711", as AtomicFile names it
bool IsFileAside(const std::string& name) {
  constexpr std::string_view kMiddle = ".part-";
  const size_t at = name.rfind(kMiddle);
  return at != std::string::npos && at > 0 && IsNumber(name.substr(at + kMiddle.size()));
}

}  // namespace

std::vector<std::filesystem::path> RemoveStaleParts(const std::filesystem::path& output) {
  std::vector<std::filesystem::path> stale;
  std::error_code unreadable;
  for (const auto& entry : std::filesystem::directory_iterator(output, unreadable)) {
    std::error_code gone;
    const std::string name = entry.path().filename().string();
    const std::filesystem::file_type type = entry.symlink_status(gone).type();
    if ((type == std::filesystem::file_type::directory && IsFolderAside(name)) ||
        (type == std::filesystem::file_type::regular && IsFileAside(name)))
      stale.push_back(entry.path());
  }
  for (const std::filesystem::path& each : stale) RemoveAll(each);
  return stale;
}

}  // namespace trireme
