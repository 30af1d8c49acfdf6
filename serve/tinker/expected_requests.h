// ExpectedRequests: which clients are about to send the next request of their models, by how soon they did so the last
// time. A pass that is ready is worth holding for them, if only for a small part of the time that a pass takes: theirs
// can then join it. Knows times and names of models; what is ready, and whether it may join, is decided elsewhere.
#pragma once

#include <map>
#include <set>
#include <string>

namespace trireme::tinker {

class ExpectedRequests {
 public:
  // All that a model had asked for is done; something of it came while nothing else of it was waiting.
  void Answered(const std::string& model, double now) { members_[model].answered = now; }
  void Came(const std::string& model, double now);
  void Forget(const std::string& model) { members_.erase(model); }
  void PassTook(double seconds);

  // Seconds for which somebody else than `here` may still be expected; 0: nobody is.
  double Patience(const std::set<std::string>& here, double now) const;

 private:
  struct Member {
    double answered = -1;        // when; below 0: something of it is under way
    double returned = kUnknown;  // seconds that its client took to come again, the last time
  };
  static constexpr double kUnknown = 1e9;

  double most_ = 0;  // seconds that anybody is waited for
  std::map<std::string, Member> members_;
};

}  // namespace trireme::tinker
