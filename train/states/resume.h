// Loads a checkpoint's states into a run's optimizer, from whatever layout wrote them into whatever layout
// reads them. Which checkpoint that is, and what else a run uses from it, is up to the loop.
#pragma once

#include "checkpoint/store_reader.h"
#include "core/comm/job.h"
#include "parallel/graph/graph.h"
#include "train/step/trainer.h"

namespace trireme {

// Refuses a checkpoint of another model, naming the first tensor that differs, one that has weights only, and one
// with states that `optimizer` does not have.
void CheckResumable(const StoreReader& checkpoint, const LayerGraph& graph, const OptimizerConfig& optimizer);

// Allocates what LoadStates reads, in a fresh trainer; untrained weights are read here.
void PrepareStates(const StoreReader& checkpoint, Trainer& trainer, Job& job);

// Collective, after PrepareStates: master weights, moments, and the weights derived from them; every byte of
// the checkpoint is verified against its digest by one of the ranks.
void LoadStates(StoreReader& checkpoint, Trainer& trainer, Job& job);

}  // namespace trireme
