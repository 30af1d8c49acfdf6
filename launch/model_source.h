// Which weights a command works on: --model, an adapter that names its base, or what a run has made. Shared
// by the commands that take a trained model; opens no weights.
#pragma once

#include <string>

#include "core/cli/arguments.h"
#include "core/config.pb.h"

namespace trireme {

struct ModelSource {
  std::string model;     // a Hugging Face directory, or a checkpoint
  std::string adapters;  // beside it; empty: none
  // It has weights of its own, whatever the run began with: a run's result, or another model than the run's.
  bool has_weights = false;
};

// From --model and --adapters, and RUN.yaml where neither is given: the run's final/, or else its newest
// checkpoint. An adapter alone brings the base that it names.
ModelSource FindModel(const Arguments& arguments, const Config& config);

// Puts it into model.path and tuning, so that what the run trains plays no role: the whole model, or the adapter;
// no layers for further tokens.
void UseModel(const ModelSource& source, Config& config);

}  // namespace trireme
