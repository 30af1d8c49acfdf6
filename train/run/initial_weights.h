// The initial weights of a run: from a checkpoint that it resumes from, from a model's files, or random;
// in the last two cases with those of an adapter.
#pragma once

#include "checkpoint/manifest.h"
#include "core/comm/job.h"
#include "core/config.pb.h"
#include "parallel/graph/graph.h"
#include "train/methods/method.h"
#include "train/states/run_start.h"
#include "train/step/trainer.h"

namespace trireme {

// Rejects, before any memory is allocated, a checkpoint that this run cannot resume from. data: what the
// run's own checkpoints would record about its data; a checkpoint to resume from must match it.
void CheckInitialWeights(const Config& config, const LayerGraph& graph, const RunStart& start,
                         const checkpoint::DataPosition& data);

// After the check. The method keeps what it wants of the weights that training started from. Collective.
void LoadInitialWeights(const LayerGraph& graph, const RunStart& start, Trainer& trainer, Job& job, Method& method);

// Logs a warning about MTP layers in the model's files that the run does not use. An adapter
// leaves its base complete.
void WarnUnused(const Config& config, const LayerGraph& graph);

}  // namespace trireme
