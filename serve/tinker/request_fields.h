// Fields of requests of models, each read and checked; and how their log-probabilities are written. Throws ApiError for
// what is wrong. Knows neither models nor their order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "serve/tinker/checkpoints.h"
#include "train/remote/train_work.h"

namespace trireme {
class Fields;
}

namespace trireme::tinker {

// Which must be there.
std::string IdOf(Fields& fields, const std::string& name);
int64_t SeqOf(Fields& fields, const std::string& name);

// lora_config; json: nullptr if the request has none.
TrainedAdapters ReadAdapters(const Json* json, int64_t max_rank);
// The same where a model is trained in full: clients always send a rank, and ask for it when they resume: it is
// remembered, and has no effect.
TrainedAdapters ReadFull(const Json* json);
void CheckOptimizer(const Json* json);
AdamNumbers ReadAdam(Fields& request);
// That a checkpoint has the model's adapters: others would be loaded in part.
void CheckSwitches(const CheckpointRecord& record, const TrainedAdapters& adapters);

// columns: of each datum's targets; 0: they are a plain list. Of [N, K] targets the rows of one datum, one after
// another, become its columns again.
Json LogprobsJson(const std::vector<std::vector<float>>& rows, const std::vector<int64_t>& columns);

}  // namespace trireme::tinker
