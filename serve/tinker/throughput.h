// Throughput: tokens per second of late, an average that forgets within half a minute. Time is given.
#pragma once

#include <cmath>
#include <cstdint>

namespace trireme::tinker {

class Throughput {
 public:
  void Add(int64_t tokens, double now) {
    rate_ = per_second(now) + static_cast<double>(tokens) / kSeconds;
    when_ = now;
    total_ += tokens;
  }
  double per_second(double now) const { return rate_ * std::exp((when_ - now) / kSeconds); }
  int64_t total() const { return total_; }

 private:
  static constexpr double kSeconds = 15;
  double rate_ = 0, when_ = 0;
  int64_t total_ = 0;
};

}  // namespace trireme::tinker
