// The protobuf dialect of clients from 0.25 on: the data of a forward_backward, and results. The schema is
// tinker.proto.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "serve/tinker/raw_data.h"
#include "serve/tinker/sampling.h"
#include "train/remote/train_work.h"

namespace trireme::tinker {

struct ProtoPass {
  std::string model_id = {};
  int64_t seq_id = 0;
  bool forward_only = false;
  RawLoss loss = {};
  std::string refusal = {};  // what is wrong with its data; empty: nothing so far
};

// Throws ApiError 400 if it is not the message at all: then not even its place in the order is known.
ProtoPass ReadPassProto(const std::string& bytes);

// columns: by datum, as in LossRequest.
std::string PassOutputProto(const TrainOutcome& outcome, const std::vector<int64_t>& columns);
std::string SampleProto(const SampleOrder& order, const SampleResult& result);

}  // namespace trireme::tinker
