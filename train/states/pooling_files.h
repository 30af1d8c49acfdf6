// The files that make a directory of vectors one of sentence-transformers': which modules turn hidden states into
// vectors. No torch.
#pragma once

#include <map>
#include <string>

#include "core/config.pb.h"

namespace trireme {

// Texts by their path in the model's directory; none for runs that train no vectors. hidden: numbers of a vector.
std::map<std::string, std::string> PoolingFiles(const Config& config, int64_t hidden);

}  // namespace trireme
