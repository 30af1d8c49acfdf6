// LrFactors: the learning rates of optimizer.lr_by_name: by which factor that of a parameter is multiplied. Names are those
// of files, so that they are the same under every layout. No torch.
#pragma once

#include <regex>
#include <string>
#include <vector>

#include "core/plan/parameter.h"

namespace trireme {

class LrFactors {
 public:
  LrFactors() = default;
  // Entries are REGEX=FACTOR; refuses others.
  explicit LrFactors(const std::vector<std::string>& entries);

  // That of the first entry which has a match in the parameter's names; 1 without one. Refuses tensors of one parameter
  // whose factors differ: q, k and v are one matrix here.
  double Of(const Parameter& parameter) const;
  // Refuses an entry that matches no trained parameter.
  void Check(const std::vector<Parameter>& parameters) const;

 private:
  struct Entry {
    std::string text;
    std::regex pattern;
    double factor = 1;
  };
  const Entry* Find(const std::string& name) const;

  std::vector<Entry> entries_;
};

}  // namespace trireme
