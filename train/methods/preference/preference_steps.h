// Training on compared or judged answers: the method of stages of answers (stages/stages.cc). A step up to its
// gradients is PreferencePass's.
#pragma once

#include <memory>

#include "core/config.pb.h"
#include "train/methods/method.h"

namespace trireme {

std::unique_ptr<Method> MakePreferenceMethod(const Config& config);

}  // namespace trireme
