#include "serve/tinker/checkpoints.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/io/atomic_file.h"
#include "net/secret.h"
#include "web/http/http.h"

namespace trireme::tinker {
namespace {

namespace fs = std::filesystem;
constexpr char kRecord[] = "record.json", kSalt[] = "salt", kLock[] = "lock";
constexpr char kAside[] = ".aside-", kBefore[] = ".before-";  // no checkpoint's name begins with a dot
constexpr int kLockTries = 30;  // of 0.1 s: ranks of a server that was killed may still be about to end

constexpr std::array<const char*, 3> kKinds = {kTrainingKind, kSamplerKind, kExternalKind};

// Runs are model ids, which have colons.
bool IsRunName(std::string name) {
  std::erase(name, ':');
  return IsCheckpointName(name);
}

[[noreturn]] void RefusePath(const std::string& text) {
  throw ApiError{.status = 400,
                 .message = "path '" + text.substr(0, 120) +
                            "': wanted tinker://RUN/weights/NAME or "
                            "tinker://RUN/sampler_weights/NAME with names of letters, digits, '.', '_' and '-'"};
}

int64_t BytesIn(const fs::path& directory) {
  int64_t bytes = 0;
  std::error_code ignored;
  for (const fs::directory_entry& file : fs::recursive_directory_iterator(directory, ignored)) {
    if (file.is_regular_file(ignored)) bytes += static_cast<int64_t>(file.file_size(ignored));
  }
  return bytes;
}

// So that a name that was given or taken away outlives the machine's power, too.
void SyncFolder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

std::vector<fs::path> FoldersIn(const fs::path& directory) {
  std::vector<fs::path> folders;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored)) {
    if (entry.is_directory(ignored) && !entry.path().filename().string().starts_with('.'))
      folders.push_back(entry.path());
  }
  std::ranges::sort(folders);
  return folders;
}

}  // namespace

bool IsCheckpointName(const std::string& name) {
  if (name.empty() || name.size() > 128 || name.front() == '.') return false;
  return std::ranges::all_of(name, [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '.' || letter == '_' || letter == '-';
  });
}

CheckpointPath ParsePath(const std::string& text) {
  std::string rest;
  for (const std::string scheme : {"tinker://", "twinkle://"}) {
    if (text.starts_with(scheme)) rest = text.substr(scheme.size());
  }
  const size_t first = rest.find('/'), second = first == std::string::npos ? first : rest.find('/', first + 1);
  if (second == std::string::npos) RefusePath(text);
  CheckpointPath path{rest.substr(0, first), rest.substr(first + 1, second - first - 1), rest.substr(second + 1)};
  const bool known = std::ranges::find(kKinds, path.kind) != kKinds.end();
  if (!known || !IsRunName(path.run) || !IsCheckpointName(path.name)) RefusePath(text);
  return path;
}

Checkpoints::Checkpoints(fs::path directory, std::function<int64_t()> clock)
    : directory_(std::move(directory)), clock_(std::move(clock)) {
  std::error_code error;
  fs::create_directories(directory_, error);
  if (error) throw InputError("--train-directory ", directory_.string(), ": ", error.message());
  Lock();
  Recover();
  const fs::path salt = directory_ / kSalt;
  if (!fs::exists(salt)) WriteAtomicFile(salt, net::Hex(net::NewSecret()));
  salt_ = ReadTextFile(salt.string());
}

Checkpoints::~Checkpoints() {
  if (lock_ >= 0) ::close(lock_);
}

// What is aside belongs to the server that runs: another one with the same directory would take it for left behind.
void Checkpoints::Lock() {
  const fs::path file = directory_ / kLock;
  lock_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_ < 0)
    throw InputError("--train-directory ", directory_.string(), ": ", std::strerror(errno),
                     "; wanted a directory to write to");
  for (int i = 0; ::flock(lock_, LOCK_EX | LOCK_NB) != 0; ++i) {
    if (errno != EWOULDBLOCK && errno != EINTR) return;  // a file system without locks
    if (i == kLockTries) {
      ::close(lock_);
      throw InputError("--train-directory ", directory_.string(), ": another server uses it; give each server its own");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

// After a server that was killed: what it had begun to write or to remove goes, and what was about to be replaced by a
// save that did not get its name has its own again.
void Checkpoints::Recover() const {
  for (const fs::path& owner : FoldersIn(directory_)) {
    for (const fs::path& run : FoldersIn(owner)) {
      for (const char* kind : kKinds) RecoverKind(run / kind);
    }
  }
}

void Checkpoints::RecoverKind(const fs::path& kind) {
  std::error_code ignored;
  std::vector<fs::path> left;
  for (const fs::directory_entry& entry : fs::directory_iterator(kind, ignored)) left.push_back(entry.path());
  for (const fs::path& place : left) {
    const std::string name = place.filename().string();
    if (name.starts_with(kBefore) && !fs::exists(kind / name.substr(std::string(kBefore).size()), ignored)) {
      fs::rename(place, kind / name.substr(std::string(kBefore).size()));
    } else if (name.starts_with(kAside) || name.starts_with(kBefore)) {
      fs::remove_all(place, ignored);
    }
  }
}

std::string Checkpoints::OwnerOf(const std::string& key) const {
  return net::Hex(net::Proof(salt_, key)).substr(0, 32);
}

fs::path Checkpoints::DirectoryOf(const std::string& owner, const CheckpointPath& path) const {
  return directory_ / owner / path.run / path.kind / path.name;
}

fs::path Checkpoints::Aside(const std::string& owner, const CheckpointPath& path) const {
  const fs::path place = DirectoryOf(owner, path).parent_path();
  const fs::path aside = place / (kAside + net::Hex(net::RandomBytes(8)));
  fs::create_directories(aside);
  return aside;
}

// One that was there before goes aside first, under a name that Recover understands: at no moment is half of it under
// the name, and a server that is killed in between has one of the two under it when it starts again.
void Checkpoints::Commit(const fs::path& aside, const std::string& owner, const CheckpointPath& path,
                         const Json& facts) const {
  WriteAtomicFile(aside / kRecord, JsonLine(facts) + "\n");
  const fs::path place = DirectoryOf(owner, path);
  const fs::path before = place.parent_path() / (kBefore + path.name);
  if (fs::exists(place)) {
    fs::remove_all(before);
    fs::rename(place, before);
  }
  fs::rename(aside, place);
  SyncFolder(place.parent_path());
  fs::remove_all(before);
}

bool Checkpoints::Exists(const std::string& owner, const CheckpointPath& path) const {
  std::error_code ignored;
  const fs::path place = DirectoryOf(owner, path);
  return fs::exists(place / kRecord, ignored) && !Expired(place);
}

bool Checkpoints::Expired(const fs::path& place) const {
  std::error_code ignored;
  return fs::exists(place / kRecord, ignored) &&
         ReadJsonFile((place / kRecord).string()).value("expires", INT64_MAX) <= clock_();
}

CheckpointRecord Checkpoints::Find(const std::string& owner, const CheckpointPath& path) const {
  const fs::path place = DirectoryOf(owner, path);
  if (!Exists(owner, path)) throw ApiError{.status = 404, .message = path.Text() + ": there is no such checkpoint"};
  return {.path = path, .facts = ReadJsonFile((place / kRecord).string()), .bytes = BytesIn(place)};
}

std::vector<CheckpointRecord> Checkpoints::All(const std::string& owner) const {
  std::vector<CheckpointRecord> all;
  for (const fs::path& run : FoldersIn(directory_ / owner)) {
    for (const char* kind : kKinds) {
      for (const fs::path& place : FoldersIn(run / kind)) {
        const CheckpointPath path{run.filename().string(), kind, place.filename().string()};
        if (Exists(owner, path)) {
          all.push_back(Find(owner, path));
        } else if (Expired(place)) {
          Discard(place);
        }
      }
    }
  }
  std::ranges::stable_sort(all, {},
                           [](const CheckpointRecord& record) { return record.facts.value("time", std::string()); });
  return all;
}

void Checkpoints::Remove(const std::string& owner, const CheckpointPath& path) const {
  Find(owner, path);
  Discard(DirectoryOf(owner, path));
}

void Checkpoints::SetExpiry(const std::string& owner, const CheckpointPath& path,
                            std::optional<int64_t> expires) const {
  Json facts = Find(owner, path).facts;
  facts.erase("expires");
  if (expires) facts["expires"] = *expires;
  WriteAtomicFile(DirectoryOf(owner, path) / kRecord, JsonLine(facts) + "\n");
}

std::vector<fs::path> Checkpoints::FilesOf(const std::string& owner, const CheckpointPath& path) const {
  Find(owner, path);
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(DirectoryOf(owner, path))) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && name != kRecord && !name.starts_with('.')) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

// It loses its name first, so that no half of it can be seen.
void Checkpoints::Discard(const fs::path& place) {
  const fs::path aside = place.parent_path() / (kAside + net::Hex(net::RandomBytes(8)));
  fs::rename(place, aside);
  SyncFolder(place.parent_path());
  fs::remove_all(aside);
}

}  // namespace trireme::tinker
