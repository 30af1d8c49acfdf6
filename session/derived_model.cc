#include "session/derived_model.h"

#include "session/grown_model.h"
#include "session/rope_model.h"

namespace trireme {

std::string DerivedModel(const Config& config) {
  Config derived = config;
  derived.mutable_model()->set_path(GrownModel(config));
  return RopeModel(derived);
}

}  // namespace trireme
