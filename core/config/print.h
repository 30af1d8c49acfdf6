// A Config as YAML, every key with its value: saved in a run's output directory as run.yaml.
#pragma once

#include <string>

#include "core/config.pb.h"

namespace trireme {

// ParseConfig of this text yields an equal Config.
std::string ToYaml(const Config& config);

// The value of one key that is not a section.
std::string ValueText(const google::protobuf::Message& section, const google::protobuf::FieldDescriptor& field);

}  // namespace trireme
