// The serialized descriptor set of config.proto with its comments; the build generates the definitions.
#pragma once

namespace trireme {

extern const unsigned char kConfigDescriptorSet[];
extern const int kConfigDescriptorSetSize;

}  // namespace trireme
