#include "board/run_folders.h"

#include <algorithm>
#include <system_error>

#include "core/base/error.h"
#include "core/base/file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostRuns = 1000;

bool IsRun(const fs::path& directory) {
  return HasRunFile(directory, "run.yaml") || HasRunFile(directory, "log.jsonl");
}

// Letters that need no escape in a path or in a list of runs.
std::string SafeName(const fs::path& directory) {
  std::string name = directory.filename().string();
  for (char& letter : name) {
    const bool plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                       (letter >= '0' && letter <= '9') || letter == '.' || letter == '_' || letter == '-';
    if (!plain) letter = '_';
  }
  return name.empty() || name == "." || name == ".." ? "run" : name.substr(0, 80);
}

}  // namespace

RunFolders::RunFolders(const std::vector<std::string>& outputs) {
  for (const std::string& output : outputs) {
    if (!PathExists(output) || !IsDirectory(output)) {
      throw InputError(output, ": not a directory; name a run's output, or a directory that holds such outputs");
    }
    fs::path path = fs::path(output).lexically_normal();
    if (!path.has_filename() && path.has_parent_path()) path = path.parent_path();
    std::error_code error;
    if (path == ".") path = fs::current_path(error);
    (IsRun(path) ? given_ : parents_).push_back(path);
  }
  Scan();
}

std::vector<fs::path> RunFolders::Found() const {
  std::vector<fs::path> found = given_;
  for (const fs::path& parent : parents_) {
    std::vector<fs::path> inside;
    std::error_code error;
    fs::directory_iterator entry(parent, fs::directory_options::skip_permission_denied, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
      std::error_code unreadable;
      if (!entry->is_symlink(unreadable) && entry->is_directory(unreadable) && IsRun(entry->path()))
        inside.push_back(entry->path());
    }
    std::sort(inside.begin(), inside.end());
    found.insert(found.end(), inside.begin(), inside.end());
  }
  if (found.size() > kMostRuns) found.resize(kMostRuns);
  return found;
}

std::string RunFolders::NewId(const fs::path& directory) const {
  const std::string name = SafeName(directory);
  std::string id = name;
  for (int number = 2; Find(id) != nullptr; ++number) id = Concat(name, "-", number);
  return id;
}

bool RunFolders::Scan() {
  const std::vector<fs::path> found = Found();
  const auto is = [](const fs::path& directory) {
    return [&directory](const auto& run) { return run->directory == directory; };
  };
  const size_t removed = std::erase_if(
      runs_, [&](const auto& run) { return std::find(found.begin(), found.end(), run->directory) == found.end(); });
  bool added = false;
  for (const fs::path& directory : found) {
    if (std::any_of(runs_.begin(), runs_.end(), is(directory))) continue;
    runs_.push_back(std::make_shared<BoardRun>(BoardRun{
        .id = NewId(directory), .directory = directory, .log = RunLog(directory), .state = StateOf(directory)}));
    added = true;
  }
  return added || removed > 0;
}

std::shared_ptr<BoardRun> RunFolders::Find(const std::string& id) const {
  for (const auto& run : runs_) {
    if (run->id == id) return run;
  }
  return nullptr;
}

}  // namespace trireme
