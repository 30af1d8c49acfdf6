#include "train/methods/preference/reference_cache.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/io/atomic_file.h"
#include "core/io/crc32c.h"
#include "core/io/digest.h"
#include "core/io/mapped_file.h"
#include "data/prepare.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr char kReferenceMagic[8] = {'T', 'R', 'I', 'R', 'E', 'F', '0', '1'};

template <typename T>
void AddValues(const std::vector<T>& values, Digest& digest) {
  digest.Add(std::as_bytes(std::span(values)));
}

std::string RowsDigest(const RowSource& rows) {
  Digest digest;
  for (int64_t i = 0; i < rows.size(); ++i) {
    const Row row = rows.Read(i);
    AddValues(row.input_ids, digest);
    AddValues(row.labels, digest);
    AddValues(row.starts, digest);
    AddValues(row.shared, digest);
    AddValues(row.weights, digest);
    if (row.patches) AddValues(*row.patches, digest);
  }
  return digest.Hex();
}

void AddFiles(const fs::path& directory, Digest& digest) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    digest.Add(fs::relative(file, directory).string()).Add(MappedFile(file).bytes());
  }
}

// What is wrong with a file's content; empty if nothing is.
std::string WhyDamaged(std::span<const std::byte> bytes, int64_t answers) {
  constexpr size_t kHeader = sizeof kReferenceMagic + sizeof(uint64_t);
  if (bytes.size() < kHeader + sizeof(uint32_t) ||
      std::memcmp(bytes.data(), kReferenceMagic, sizeof kReferenceMagic) != 0) {
    return "is no file of log-probabilities";
  }
  uint64_t count = 0;
  std::memcpy(&count, bytes.data() + sizeof kReferenceMagic, sizeof count);
  if (count != static_cast<uint64_t>(answers) || bytes.size() != kHeader + 4 * count + sizeof(uint32_t)) {
    return Concat("has ", count, " log-probabilities in ", bytes.size(), " bytes; wanted ", answers);
  }
  uint32_t digest = 0;
  std::memcpy(&digest, bytes.data() + bytes.size() - sizeof digest, sizeof digest);
  return Crc32c(bytes.data(), bytes.size() - sizeof digest) == digest ? "" : "does not match its digest";
}

}  // namespace

AnswerIndex::AnswerIndex(const RowSource& rows) : first{0} {
  for (int64_t i = 0; i < rows.size(); ++i) first.push_back(first.back() + std::ssize(rows.Read(i).answer_tokens));
}

std::vector<int64_t> AnswerIndex::Of(const std::vector<int64_t>& rows) const {
  std::vector<int64_t> answers;
  for (const int64_t row : rows) {
    for (int64_t answer = first[row]; answer < first[row + 1]; ++answer) answers.push_back(answer);
  }
  return answers;
}

std::string ReferenceDigest(const Config& config) {
  const bool own = config.reference() == "base" || config.reference() == "start";
  Digest digest;
  digest.Add(Concat("dtype ", config.model().dtype()));
  AddFiles(own ? config.model().path() : config.reference(), digest);
  if (own && config.model().init() == MODEL_INIT_RANDOM) digest.Add(Concat("seed ", config.run().seed()));
  if (config.reference() == "start" && !config.tuning().adapters().empty())
    AddFiles(config.tuning().adapters(), digest);
  return digest.Hex();
}

ReferenceCache::ReferenceCache(const Config& config, const RowSource& rows) {
  Digest digest;
  digest.Add(RowsDigest(rows)).Add(ReferenceDigest(config));
  path_ = DataCacheOf(config.data()) / (digest.Hex() + ".reference");
}

std::optional<std::vector<float>> ReferenceCache::Read(int64_t answers) const {
  if (!fs::exists(path_)) return std::nullopt;
  std::vector<float> log_probs(static_cast<size_t>(answers));
  {
    const MappedFile file(path_);
    const std::string why = WhyDamaged(file.bytes(), answers);
    if (why.empty()) {
      std::memcpy(log_probs.data(), file.bytes().data() + sizeof kReferenceMagic + sizeof(uint64_t),
                  4 * log_probs.size());
      return log_probs;
    }
    TRIREME_LOG(WARNING) << path_.string() << ": " << why << "; the cache is damaged and is rebuilt";
  }
  std::error_code ignored;
  fs::remove(path_, ignored);
  return std::nullopt;
}

void ReferenceCache::Write(const std::vector<float>& log_probs) const {
  const uint64_t count = log_probs.size();
  uint32_t digest = Crc32c(kReferenceMagic, sizeof kReferenceMagic);
  digest = Crc32c(&count, sizeof count, digest);
  digest = Crc32c(log_probs.data(), 4 * log_probs.size(), digest);
  AtomicFile file(path_);
  file.Write(kReferenceMagic, sizeof kReferenceMagic);
  file.Write(&count, sizeof count);
  file.Write(log_probs.data(), 4 * log_probs.size());
  file.Write(&digest, sizeof digest);
  file.Commit();
}

}  // namespace trireme
