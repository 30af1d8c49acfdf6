// A Config as YAML, every key with its value: what a run's output directory keeps as run.yaml.
#pragma once

#include <string>

#include "core/config.pb.h"

namespace trireme {

// ParseConfig of this text gives an equal Config.
std::string ToYaml(const Config& config);

}  // namespace trireme
