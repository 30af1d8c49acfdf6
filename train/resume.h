// A checkpoint's states into a run's optimizer, from whatever layout they were written to whatever layout
// reads them. Which checkpoint that is, and what else a run takes from it, is the loop's business.
#pragma once

#include "checkpoint/store_reader.h"
#include "core/comm/job.h"
#include "parallel/graph/graph.h"
#include "train/trainer.h"

namespace trireme {

// Refuses a checkpoint of another model, naming the first tensor that differs, one that has weights only, and one
// with states that `optimizer` does not have.
void CheckResumable(const StoreReader& checkpoint, const LayerGraph& graph, const std::string& optimizer);

// Memory for what LoadStates reads, in a fresh trainer; values that are not trained are read here.
void PrepareStates(const StoreReader& checkpoint, Trainer& trainer, Job& job);

// Collective, after PrepareStates: masters, moments, and the values that follow from them; every byte of the
// checkpoint is held against its digest by one of the ranks.
void LoadStates(StoreReader& checkpoint, Trainer& trainer, Job& job);

}  // namespace trireme
