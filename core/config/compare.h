// Where two configurations differ, key by key.
#pragma once

#include <string>
#include <vector>

#include "core/config.pb.h"

namespace trireme {

struct KeyDifference {
  std::string key;          // "optimizer.lr"
  std::string before, now;  // as YAML
};

// In the schema's order. Both have every key set, as LoadConfig leaves them.
std::vector<KeyDifference> DifferingKeys(const Config& before, const Config& now);

// "optimizer.lr was 1.0e-04, now 5.0e-05; run.seed was 42, now 7".
std::string ToText(const std::vector<KeyDifference>& differences);

}  // namespace trireme
