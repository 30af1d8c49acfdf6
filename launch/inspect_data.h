// What is in a file of training data, for people: the first sample as tokens, text and mask, and how long
// samples are. Other paths are other files' business.
#pragma once

#include <filesystem>
#include <iosfwd>

#include "core/config.pb.h"

namespace trireme {

// Whether the path is data by its name: records, indexed data, or a directory with such files and no model in
// it.
bool IsData(const std::filesystem::path& path);

// config.model.path: where the tokenizer is; empty: only what can be said without one.
void InspectData(const std::filesystem::path& path, const Config& config, std::ostream& out);

}  // namespace trireme
