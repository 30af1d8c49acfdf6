// What is in a file of training data, for people: a sample as tokens, text and mask, the lengths of samples,
// and what a run would skip. Other paths are handled in other files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>

#include "core/config.pb.h"

namespace trireme {

// Whether the path is data, judging by its name: records, indexed data, or a directory with such files and no
// model in it.
bool IsData(const std::filesystem::path& path);

struct DataLook {
  Config config;       // model.path: where the tokenizer is; empty: show only what needs none
  int64_t sample = 1;  // which one is shown, counted from 1
};

void InspectData(const std::filesystem::path& path, const DataLook& look, std::ostream& out);

// All data of a run, as its configuration reads it.
void InspectRunData(const DataLook& look, std::ostream& out);

}  // namespace trireme
