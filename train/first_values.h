// The values that a run begins with: those of a checkpoint that it resumes from, of a model's files, or drawn
// ones; beside the last two those of an adapter.
#pragma once

#include "checkpoint/manifest.h"
#include "core/comm/job.h"
#include "core/config.pb.h"
#include "parallel/graph/graph.h"
#include "train/preference.h"
#include "train/run_start.h"
#include "train/trainer.h"

namespace trireme {

// Refuses, before any memory is taken, a checkpoint that this run cannot resume from. data: what the run's
// own checkpoints would say of its data, for one to resume from must say the same.
void CheckFirstValues(const Config& config, const LayerGraph& graph, const RunStart& start,
                      const checkpoint::DataPosition& data);

// After the check. `preference` keeps what it wants of the weights that training started from; may be null. Collective.
void TakeFirstValues(const LayerGraph& graph, const RunStart& start, Trainer& trainer, Job& job,
                     PreferencePass* preference = nullptr);

// Names what the model's files have for further tokens and the run does not use, in the log. An adapter
// leaves its base whole.
void SayWhatIsLeftOut(const Config& config, const LayerGraph& graph);

}  // namespace trireme
