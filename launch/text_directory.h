// What a model's directory says of itself where it gives vectors, scores or labels: sentence-transformers' modules.json
// and what it names, or transformers' …ForSequenceClassification; as settings of a run. For commands that are given a
// directory and no run. Reads no weights.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/cli/arguments.h"
#include "core/comm/job.h"
#include "core/config.pb.h"
#include "launch/model_source.h"

namespace trireme {

struct TextDirectory {
  std::string model;                           // where config.json and the weights are
  std::vector<std::string> settings;           // "stage=embedding", "retrieval.pooling=mean"; none: it writes text
  std::map<std::string, std::string> prompts;  // by name: what stands before a text
  std::string default_prompt;                  // the name of the one that stands there unasked; empty: none
  std::optional<int64_t> longest;              // most tokens of a text
};

// Modules that nothing here computes are refused by name.
TextDirectory ReadTextDirectory(const std::string& directory);

// The configuration of a command on that source: `config` with what the directory says, where neither a run nor --set
// says which stage it is of. Then UseModel.
Config ConfigOfTexts(const Arguments& arguments, const Config& config, ModelSource& source, Job& job);

}  // namespace trireme
