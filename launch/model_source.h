// Which weights a command works on: --model, an adapter that names its base, or a run's result. Shared
// by the commands that take a trained model; opens no weights.
#pragma once

#include <string>

#include "core/cli/arguments.h"
#include "core/comm/job.h"
#include "core/config.pb.h"

namespace trireme {

struct ModelSource {
  std::string model;     // a Hugging Face directory, or a checkpoint
  std::string adapters;  // on top of it; empty: none
  // It has its own weights, whatever the run started from: a run's result, or a model other than the run's.
  bool has_weights = false;
};

// From --model and --adapters, and RUN.yaml where neither is given: the run's final/, or else its newest
// checkpoint. An adapter alone implies the base that it names. Collective: what is on a hub is downloaded.
ModelSource FindModel(const Arguments& arguments, const Config& config, Job& job);

// The same without --adapters, which a command gives to some of its rows: the model, or the base that `adapter`
// names, if that is not empty.
ModelSource FindBase(const Arguments& arguments, const Config& config, Job& job, const std::string& adapter);

// The model of --model, or the base that the adapter of --adapters names. Collective.
std::string BaseModel(const Arguments& arguments, Job& job);

// Sets model.path and tuning, so that the run's own tuning has no effect: the whole model, or the adapter;
// no MTP layers.
void UseModel(const ModelSource& source, Config& config);

}  // namespace trireme
