#include "serve/tinker/quotas.h"

#include <algorithm>

namespace trireme::tinker {
namespace {

constexpr double kBurstSeconds = 10;  // what an owner that was idle may use at once
constexpr double kLeastWait = 0.05;

}  // namespace

double Quotas::LevelOf(const std::string& owner, double now) const {
  const auto rate = static_cast<double>(limits_.tokens_per_second);
  const auto found = buckets_.find(owner);
  if (found == buckets_.end()) return rate * kBurstSeconds;
  return std::min(rate * kBurstSeconds, found->second.tokens + (now - found->second.when) * rate);
}

void Quotas::Charge(const std::string& owner, int64_t tokens, double now) {
  if (limits_.tokens_per_second <= 0) return;
  const double left = LevelOf(owner, now) - static_cast<double>(tokens);  // before there is a bucket to look at
  buckets_[owner] = {.tokens = left, .when = now};
  const double full = static_cast<double>(limits_.tokens_per_second) * kBurstSeconds;
  std::erase_if(buckets_, [&](const auto& entry) { return LevelOf(entry.first, now) >= full; });
}

double Quotas::SecondsToWait(const std::string& owner, double now) const {
  if (limits_.tokens_per_second <= 0) return 0;
  const double level = LevelOf(owner, now);
  return level > 0 ? 0 : std::max(kLeastWait, -level / static_cast<double>(limits_.tokens_per_second));
}

}  // namespace trireme::tinker
