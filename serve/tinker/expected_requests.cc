#include "serve/tinker/expected_requests.h"

#include <algorithm>

namespace trireme::tinker {
namespace {

constexpr double kShareOfPass = 0.1, kMostSeconds = 0.05;

}  // namespace

void ExpectedRequests::PassTook(double seconds) { most_ = std::min(kShareOfPass * seconds, kMostSeconds); }

void ExpectedRequests::Came(const std::string& model, double now) {
  Member& member = members_[model];
  if (member.answered >= 0) member.returned = now - member.answered;
  member.answered = -1;
}

double ExpectedRequests::Patience(const std::set<std::string>& here, double now) const {
  double last = now;
  for (const auto& [model, member] : members_) {
    if (member.answered < 0 || member.returned > most_ || here.contains(model)) continue;
    last = std::max(last, member.answered + most_);
  }
  return last - now;
}

}  // namespace trireme::tinker
