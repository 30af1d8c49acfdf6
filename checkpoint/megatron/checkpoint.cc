#include "checkpoint/megatron/checkpoint.h"

#include <cctype>
#include <charconv>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"

namespace trireme {
namespace {

constexpr char kLatest[] = "latest_checkpointed_iteration.txt";
constexpr char kDistributed[] = "metadata.json";

bool HasRanks(const std::filesystem::path& directory) {
  if (!IsDirectory(directory)) return false;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().filename().string().starts_with("mp_rank_")) return true;
  }
  return false;
}

bool HasDistributed(const std::filesystem::path& directory) {
  return PathExists(directory / ".metadata") || PathExists(directory / kDistributed);
}

std::string Trimmed(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.pop_back();
  return text;
}

// "release", or the iteration by its number.
std::filesystem::path LatestIteration(const std::filesystem::path& directory) {
  const std::filesystem::path latest = directory / kLatest;
  if (!PathExists(latest)) return directory;
  const std::string text = Trimmed(ReadTextFile(latest.string()));
  if (text == "release") return directory / text;
  int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0)
    throw InputError(latest.string(), ": says '", Printable(text.substr(0, 40)),
                     "'; wanted a number or the word release");
  std::string digits = std::to_string(number);
  digits.insert(0, digits.size() < 7 ? 7 - digits.size() : 0, '0');
  return directory / ("iter_" + digits);
}

int64_t IterationOf(const std::filesystem::path& iteration) {
  const std::string name = iteration.filename().string();
  if (!name.starts_with("iter_")) return 0;
  int64_t number = 0;
  std::from_chars(name.data() + 5, name.data() + name.size(), number);
  return number;
}

void RefuseOtherBackend(const std::filesystem::path& file) {
  if (!PathExists(file)) return;
  const Json metadata = ReadJsonFile(file.string());
  const std::string backend = metadata.is_object() ? metadata.value("sharded_backend", "") : "";
  if (backend == "torch_dist") return;
  throw InputError(
      file.string(), ": its format is '", Printable(backend),
      "'; wanted torch_dist, or torch with mp_rank_… directories: save it again with --ckpt-format torch_dist");
}

}  // namespace

bool IsMegatron(const std::filesystem::path& directory) {
  return PathExists(directory / kLatest) || HasRanks(directory) || PathExists(directory / ".metadata");
}

MegatronCheckpoint OpenMegatron(const std::filesystem::path& directory) {
  MegatronCheckpoint result;
  result.path = LatestIteration(directory);
  if (!IsDirectory(result.path)) {
    throw InputError((directory / kLatest).string(), ": names ", result.path.filename().string(),
                     ", which is not there; name an iteration that is: ", directory.string(), "/iter_…");
  }
  result.iteration = IterationOf(result.path);
  if (HasDistributed(result.path)) {
    RefuseOtherBackend(result.path / kDistributed);
    ReadDistFiles(result.path, result);
  } else if (HasRanks(result.path)) {
    ReadRankFiles(result.path, result);
  } else {
    throw InputError(result.path.string(),
                     ": holds no Megatron checkpoint; wanted mp_rank_… directories, or .metadata and .distcp files");
  }
  if (result.weights.empty()) throw InputError(result.path.string(), ": has no weights");
  CheckComplete(result.weights);
  return result;
}

}  // namespace trireme
