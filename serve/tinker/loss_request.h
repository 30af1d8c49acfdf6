// From data as they came to rows that can be trained on: every tensor, length, id and number is checked against the
// loss and the model, and refused by name before anything is queued.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "serve/tinker/raw_data.h"
#include "train/remote/train_work.h"

namespace trireme::tinker {

struct DataLimits {
  int64_t vocabulary = 0;
  int64_t context = 0;  // most tokens of a sequence
};

struct LossRequest {
  std::vector<TrainRow> rows = {};    // of [N, K] targets K rows, one after another
  std::vector<int64_t> columns = {};  // by datum: K; 0: its targets have one dim
  std::string loss = {};
  LossNumbers numbers = {};
  bool base = false;  // without the model's adapters: Twinkle's disable_lora
};

// Throws ApiError that names the datum and the tensor.
LossRequest CheckLoss(const RawLoss& raw, const DataLimits& limits);

// Refuses tokens that the model does not have, none at all, or too many.
void CheckTokens(const std::vector<int64_t>& tokens, const DataLimits& limits, const std::string& where);

}  // namespace trireme::tinker
