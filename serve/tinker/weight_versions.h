// WeightVersions: where one model is trained in full there is one set of weights, and this knows which it is: what was
// saved or handed to a sampler is of a version, and can be used while that is the one there is. Knows neither models
// nor files.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace trireme::tinker {

class WeightVersions {
 public:
  int64_t now() const { return now_; }
  // Work that changes the weights begins; or it failed, and they are what they were.
  void Change() {
    before_ = now_;
    now_ = ++changes_;
  }
  void Undo() { now_ = before_; }
  // The weights are now those that the server started with; those of a checkpoint.
  void AreBase() { base_ = now_; }
  void AreOf(const std::string& path) { of_path_[path] = now_; }

  bool base() const { return base_ == now_; }
  bool are_of(const std::string& path) const {
    const auto found = of_path_.find(path);
    return found != of_path_.end() && found->second == now_;
  }

 private:
  int64_t now_ = 0, before_ = 0, changes_ = 0, base_ = 0;
  std::map<std::string, int64_t> of_path_;
};

}  // namespace trireme::tinker
