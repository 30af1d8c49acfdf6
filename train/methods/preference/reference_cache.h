// ReferenceCache: the reference's log-probabilities of all answers of a data set as a file in the data cache, named
// after a digest of the rows and of the reference's weights. No torch, no communication; who computes them is
// reference.h.
//
// The file: 8 bytes of magic, their number (uint64), the log-probabilities (fp32), their CRC-32C (uint32).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/config.pb.h"
#include "data/rows.h"

namespace trireme {

// Which answers each row has: row i those from first[i] up to first[i + 1].
struct AnswerIndex {
  explicit AnswerIndex(const RowSource& rows);

  std::vector<int64_t> first;

  int64_t answers() const { return first.back(); }
  // The answers of these rows, one after the other.
  std::vector<int64_t> Of(const std::vector<int64_t>& rows) const;
};

class ReferenceCache {
 public:
  // Reads all rows and all files of the reference: on one rank.
  ReferenceCache(const Config& config, const RowSource& rows);

  const std::filesystem::path& path() const { return path_; }
  // Nothing if the file is not there. One that is damaged or has another number of values is reported and removed.
  std::optional<std::vector<float>> Read(int64_t answers) const;
  void Write(const std::vector<float>& log_probs) const;

 private:
  std::filesystem::path path_;
};

// Of everything that decides what a reference is: its files, or what random weights are drawn from, and its dtype.
std::string ReferenceDigest(const Config& config);

}  // namespace trireme
