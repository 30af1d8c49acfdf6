// Training on whole texts: the method of stages embedding, reranker and classification.
#pragma once

#include <memory>

#include "core/config.pb.h"
#include "train/methods/method.h"

namespace trireme {

std::unique_ptr<Method> MakeRetrievalMethod(const Config& config);

}  // namespace trireme
