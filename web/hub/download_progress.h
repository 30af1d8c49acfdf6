// DownloadProgress: how far the download of a model is, as lines of the log. No torch.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace trireme {

// "1.50 GB".
std::string SizeText(int64_t bytes);

class DownloadProgress {
 public:
  DownloadProgress(std::string what, int64_t total_bytes) : what_(std::move(what)), total_bytes_(total_bytes) {}

  // So many bytes of this file are here; those of `fresh` came just now.
  void At(const std::string& file, int64_t file_bytes, int64_t fresh);
  void FileIsHere(int64_t bytes) { done_bytes_ += bytes; }

 private:
  using Clock = std::chrono::steady_clock;

  const std::string what_;
  const int64_t total_bytes_;
  int64_t done_bytes_ = 0;   // of whole files
  int64_t fresh_bytes_ = 0;  // since the last line
  Clock::time_point last_ = Clock::now();
};

}  // namespace trireme
