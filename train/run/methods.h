// The training methods: one line each. Which one a stage has is a fact of the stage (stages/stage.h).
#pragma once

#include <memory>

#include "core/config.pb.h"
#include "train/methods/method.h"

namespace trireme {

// That of the configuration's stage. `config` outlives it.
std::unique_ptr<Method> MakeMethod(const Config& config);

}  // namespace trireme
