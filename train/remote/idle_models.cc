#include "train/remote/idle_models.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr char kFolder[] = ".idle";

std::string ThisHost() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "host";
}

// What a process of this host left behind when it was killed: "HOST.PID.RANK".
void RemoveLeftovers(const fs::path& all) {
  std::error_code ignored;
  const std::string begin = ThisHost() + ".";
  for (const fs::directory_entry& entry : fs::directory_iterator(all, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(begin)) continue;
    const auto process = static_cast<pid_t>(std::atoll(name.c_str() + begin.size()));
    if (process > 0 && kill(process, 0) != 0 && errno == ESRCH) fs::remove_all(entry.path(), ignored);
  }
}

}  // namespace

IdleModels::IdleModels(fs::path directory, int64_t in_memory, int rank)
    : folder_(directory / kFolder / (ThisHost() + "." + std::to_string(getpid()) + "." + std::to_string(rank))),
      in_memory_(in_memory) {
  RemoveLeftovers(directory / kFolder);
}

IdleModels::~IdleModels() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
  fs::remove(folder_.parent_path(), ignored);  // if it is empty
}

void IdleModels::Use(const std::string& id) {
  used_.remove(id);
  used_.push_front(id);
}

void IdleModels::Drop(const std::string& id) {
  used_.remove(id);
  std::error_code ignored;
  fs::remove(FileOf(id), ignored);
}

std::vector<std::string> IdleModels::TakeSurplus(int64_t busy) {
  std::vector<std::string> surplus;
  while (std::cmp_greater(used_.size(), std::max(in_memory_, busy))) {
    surplus.push_back(std::move(used_.back()));
    used_.pop_back();
  }
  return surplus;
}

// Ids are SESSION:train:NUMBER.
fs::path IdleModels::FileOf(const std::string& id) const {
  std::string name = id;
  std::replace(name.begin(), name.end(), '/', '_');
  return folder_ / (name + ".safetensors");
}

}  // namespace trireme
