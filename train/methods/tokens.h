// Training on the tokens of rows by cross-entropy: the method of stages pt and sft.
#pragma once

#include <memory>

#include "core/config.pb.h"
#include "train/methods/method.h"

namespace trireme {

std::unique_ptr<Method> MakeTokensMethod(const Config& config);

}  // namespace trireme
