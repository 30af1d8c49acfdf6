#include "serve/tinker/checkpoints.h"

#include <algorithm>
#include <cctype>
#include <chrono>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/io/atomic_file.h"
#include "net/secret.h"
#include "serve/http.h"

namespace trireme::tinker {
namespace {

namespace fs = std::filesystem;
constexpr char kRecord[] = "record.json", kSalt[] = "salt", kAside[] = ".aside-";

// Runs are model ids, which have colons.
bool IsRunName(std::string name) {
  std::erase(name, ':');
  return IsCheckpointName(name);
}

[[noreturn]] void RefusePath(const std::string& text) {
  throw ApiError{.status = 400,
                 .message = "path '" + text.substr(0, 120) + "': wanted tinker://RUN/weights/NAME or "
                            "tinker://RUN/sampler_weights/NAME with names of letters, digits, '.', '_' and '-'"};
}

int64_t BytesIn(const fs::path& directory) {
  int64_t bytes = 0;
  std::error_code ignored;
  for (const fs::directory_entry& file : fs::directory_iterator(directory, ignored)) {
    bytes += static_cast<int64_t>(file.file_size(ignored));
  }
  return bytes;
}

std::vector<fs::path> FoldersIn(const fs::path& directory) {
  std::vector<fs::path> folders;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored)) {
    if (entry.is_directory(ignored) && !entry.path().filename().string().starts_with('.')) folders.push_back(entry.path());
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
  const bool known = path.kind == kTrainingKind || path.kind == kSamplerKind;
  if (!known || !IsRunName(path.run) || !IsCheckpointName(path.name)) RefusePath(text);
  return path;
}

int64_t UnixSeconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Checkpoints::Checkpoints(fs::path directory, std::function<int64_t()> clock)
    : directory_(std::move(directory)), clock_(std::move(clock)) {
  std::error_code error;
  fs::create_directories(directory_, error);
  if (error) throw InputError("--train-directory ", directory_.string(), ": ", error.message());
  const fs::path salt = directory_ / kSalt;
  if (!fs::exists(salt)) WriteAtomicFile(salt, net::Hex(net::NewSecret()));
  salt_ = ReadTextFile(salt.string());
}

std::string Checkpoints::OwnerOf(const std::string& key) const { return net::Hex(net::Proof(salt_, key)).substr(0, 32); }

fs::path Checkpoints::DirectoryOf(const std::string& owner, const CheckpointPath& path) const {
  return directory_ / owner / path.run / path.kind / path.name;
}

fs::path Checkpoints::Aside(const std::string& owner, const CheckpointPath& path) const {
  const fs::path place = DirectoryOf(owner, path).parent_path();
  const fs::path aside = place / (kAside + net::Hex(net::RandomBytes(8)));
  fs::create_directories(aside);
  return aside;
}

// One that was there before goes aside first: at no moment is half of it under the name.
void Checkpoints::Commit(const fs::path& aside, const std::string& owner, const CheckpointPath& path, const Json& facts) const {
  WriteAtomicFile(aside / kRecord, JsonLine(facts) + "\n");
  const fs::path place = DirectoryOf(owner, path);
  const fs::path before = aside.string() + "-before";
  if (fs::exists(place)) fs::rename(place, before);
  fs::rename(aside, place);
  fs::remove_all(before);
}

bool Checkpoints::Exists(const std::string& owner, const CheckpointPath& path) const {
  std::error_code ignored;
  const fs::path place = DirectoryOf(owner, path);
  return fs::exists(place / kRecord, ignored) && !Expired(place);
}

bool Checkpoints::Expired(const fs::path& place) const {
  std::error_code ignored;
  return fs::exists(place / kRecord, ignored) && ReadJsonFile((place / kRecord).string()).value("expires", INT64_MAX) <= clock_();
}

CheckpointRecord Checkpoints::Find(const std::string& owner, const CheckpointPath& path) const {
  const fs::path place = DirectoryOf(owner, path);
  if (!Exists(owner, path)) throw ApiError{.status = 404, .message = path.Text() + ": there is no such checkpoint"};
  return {.path = path, .facts = ReadJsonFile((place / kRecord).string()), .bytes = BytesIn(place)};
}

std::vector<CheckpointRecord> Checkpoints::All(const std::string& owner) const {
  std::vector<CheckpointRecord> all;
  for (const fs::path& run : FoldersIn(directory_ / owner)) {
    for (const char* kind : {kTrainingKind, kSamplerKind}) {
      for (const fs::path& place : FoldersIn(run / kind)) {
        const CheckpointPath path{run.filename().string(), kind, place.filename().string()};
        if (Exists(owner, path)) {
          all.push_back(Find(owner, path));
        } else if (Expired(place)) {
          fs::remove_all(place);
        }
      }
    }
  }
  std::ranges::stable_sort(all, {}, [](const CheckpointRecord& record) { return record.facts.value("time", std::string()); });
  return all;
}

void Checkpoints::Remove(const std::string& owner, const CheckpointPath& path) const {
  Find(owner, path);
  fs::remove_all(DirectoryOf(owner, path));
}

}  // namespace trireme::tinker
