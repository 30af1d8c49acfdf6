// How much data there is to train on, and how many steps that makes: for the preamble and for
// the dry run. Plain numbers. No torch.
#pragma once

#include <cstdint>
#include <string>

#include "core/config.pb.h"
#include "data/dataset.h"

namespace trireme {

struct DataExtent {
  int64_t samples = 0;          // that are trained on, before packing
  int64_t rows = 0;             // the packed sequences that steps consume
  int64_t tokens = 0;           // of all rows
  int64_t trained_tokens = 0;   // of these, trained on
  int64_t valid_rows = 0;       // to evaluate on
  int64_t steps_per_epoch = 0;  // passes over all rows
  int64_t total_steps = 0;      // of the run
  // Tokens of the longest row, where a record has any number of texts: the plan of memory takes it. 0: it is not known,
  // or data.max_length says it.
  int64_t longest = 0;
};

DataExtent ExtentOf(const Config& config, const DataSets& data);

// Optimizer steps of a run over this many rows, or prompts: run.steps, or as many as run.epochs takes.
int64_t TotalSteps(const Config& config, int64_t rows);

// Of them, in a pass over all rows.
int64_t StepsPerEpoch(const Config& config, int64_t rows);

// "data: 200 samples in 57 sequences, …" and "steps: 16 = 4 epochs of 4, …", one line each.
std::string ToText(const DataExtent& extent, const Config& config);

}  // namespace trireme
