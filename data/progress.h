// Progress: progress of long work before training, on stderr: a bar on a terminal, otherwise a
// line now and then. Silent if the work is quick.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace trireme {

class Progress {
 public:
  Progress(std::string what, int64_t total);
  ~Progress();
  void Advance(int64_t done);

 private:
  void Show();

  const std::string what_;
  const int64_t total_;
  const bool terminal_;
  int64_t done_ = 0;
  bool shown_ = false;
  const std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace trireme
