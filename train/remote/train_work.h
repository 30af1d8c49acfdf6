// TrainWork: one unit of remote training as rank 0 hands it to all ranks: what to do with which model, and the data,
// all of it checked. TrainOutcome: what comes of it, on rank 0. Plain values that travel as bytes; no torch, no
// protocol.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/remote/losses.h"

namespace trireme {

// A sequence: position i of `tokens` predicts targets[i].
struct TrainRow {
  std::vector<int64_t> tokens = {}, targets = {};
  LossInputs inputs = {};
};

struct AdamNumbers {
  double learning_rate = 1e-4, beta1 = 0.9, beta2 = 0.95, eps = 1e-12, weight_decay = 0;
  double grad_clip_norm = 0;  // 0: no clipping
};

// Which adapters a model has.
struct TrainedAdapters {
  int64_t rank = 32;
  uint64_t seed = 0;
  bool attention = true, mlp = true;
};

enum class TrainAction {
  kCreate,       // a model: its adapters from the seed, no gradients
  kPass,         // log-probabilities and, if `backward`, gradients added to the model's
  kStep,         // AdamW with the gradients so far
  kSave,         // a PEFT directory, with the optimizer's state if `optimizer`
  kLoad,         // from such a directory
  kDrop,         // the model
  kOpenSampler,  // an adapter directory for generation
  kDropSampler,
};

struct TrainWork {
  TrainAction action = TrainAction::kPass;
  std::string model = {};
  TrainedAdapters adapters = {};  // kCreate
  std::vector<TrainRow> rows = {};
  std::string loss = "cross_entropy";
  LossNumbers numbers = {};
  bool backward = false;
  bool base = false;  // kPass: without the model's adapters
  AdamNumbers adam = {};
  std::string directory = {};
  bool optimizer = false;
  int64_t sampler = -1;

  int64_t tokens() const;  // of its rows
  std::string Bytes() const;
  static TrainWork Of(const std::string& bytes);
};

// Whether two passes may be run as one: of different models, alike in what they compute of their rows.
bool MayJoin(const TrainWork& one, const TrainWork& other);

// Units that are run as one.
std::string BytesOf(const std::vector<const TrainWork*>& works);
std::vector<TrainWork> WorksOf(const std::string& bytes);

struct TrainOutcome {
  std::string error = {};  // empty: it worked
  bool users_fault = false;
  double loss = 0;
  std::vector<std::vector<float>> logprobs = {};  // by row, as long as its targets
  double grad_norm = 0;                           // before clipping
  int64_t step = 0;                               // of the model's optimizer
  int64_t sampler = -1;
};

}  // namespace trireme
