// Quotas: what one owner may have at once. Tokens, trained and sampled ones alike, come from a bucket that fills at the
// rate allowed; who has used more than there was waits until it is paid back, so a request of any size can run. Time is
// given.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace trireme::tinker {

// Of each owner; 0: no limit.
struct QuotaLimits {
  int64_t models = 0;  // in training
  int64_t tokens_per_second = 0;
  int64_t queued = 0;  // requests that are not done
};

class Quotas {
 public:
  explicit Quotas(QuotaLimits limits = {}) : limits_(limits) {}
  const QuotaLimits& limits() const { return limits_; }

  void Charge(const std::string& owner, int64_t tokens, double now);
  // How long this owner has to wait until it may use tokens again; 0: it may.
  double SecondsToWait(const std::string& owner, double now) const;

 private:
  struct Bucket {
    double tokens = 0, when = 0;
  };
  double LevelOf(const std::string& owner, double now) const;

  const QuotaLimits limits_;
  std::map<std::string, Bucket> buckets_;  // of those that are not full
};

}  // namespace trireme::tinker
