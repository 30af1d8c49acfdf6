// LrFactors: the learning rates of optimizer.lr_by_name: by which factor that of a parameter is multiplied. Names are
// those of files, so that they are the same under every layout. Which part of a model a name belongs to is told, not
// known. No torch.
#pragma once

#include <map>
#include <regex>
#include <string>
#include <vector>

#include "core/plan/parameter.h"

namespace trireme {

// By name in files: the part of the model that a tensor belongs to, a word that may stand instead of a pattern.
using PartsByName = std::map<std::string, std::string>;

class LrFactors {
 public:
  LrFactors() = default;
  // Entries are REGEX=FACTOR, or PART=FACTOR with a whole word of `parts`; refuses others.
  explicit LrFactors(const std::vector<std::string>& entries, PartsByName parts = {});

  // That of the first entry which has a match in the parameter's names; 1 without one. Refuses tensors of one parameter
  // whose factors differ: q, k and v are one matrix here.
  double Of(const Parameter& parameter) const;
  // Refuses an entry that matches no trained parameter.
  void Check(const std::vector<Parameter>& parameters) const;

 private:
  struct Entry {
    std::string text;
    std::string part;  // empty: the pattern decides
    std::regex pattern;
    double factor = 1;
  };
  const Entry* Find(const std::string& name) const;

  PartsByName parts_;
  std::vector<Entry> entries_;
};

}  // namespace trireme
