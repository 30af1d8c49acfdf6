// How much there is to train on, and how many steps that makes: for the words before the first step and for
// the dry run. Plain numbers. No torch.
#pragma once

#include <cstdint>
#include <string>

#include "core/config.pb.h"
#include "train/data/dataset.h"

namespace trireme {

struct DataExtent {
  int64_t samples = 0;          // that are trained on, before packing
  int64_t rows = 0;             // what they make: the sequences that a step takes
  int64_t tokens = 0;           // of all rows
  int64_t trained_tokens = 0;   // of these, learnt
  int64_t valid_rows = 0;       // to evaluate on
  int64_t steps_per_epoch = 0;  // passes over all rows
  int64_t total_steps = 0;      // of the run
};

DataExtent ExtentOf(const Config& config, const DataSets& data);

// Optimizer steps of a run over so many rows: run.steps, or what run.epochs makes of them.
int64_t TotalSteps(const RunConfig& run, int64_t rows);

// "data: 200 samples in 57 sequences, …" and "steps: 16 = 4 epochs of 4, …", a line each.
std::string ToText(const DataExtent& extent, const Config& config);

}  // namespace trireme
