// MegatronStates: the optimizer's states of a Megatron checkpoint, as MegatronTensors like its weights, whatever split
// them over ranks: whole tensors, flat buffers of a distributed optimizer, buckets of its data-parallel ranks. Adam
// alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/megatron/checkpoint.h"
#include "checkpoint/megatron/tensors.h"
#include "checkpoint/pickle/torch_file.h"

namespace trireme {

inline constexpr char kMaster[] = "master", kFirstMoment[] = "exp_avg", kSecondMoment[] = "exp_avg_sq";

struct MegatronStates {
  std::map<std::string, MegatronTensors> tensors;  // by state
  std::set<int64_t> updates;                  // that any part of the optimizer says it has done; one if it is whole
  std::vector<std::filesystem::path> absent;  // files that some layouts have and this one has not
  std::vector<std::shared_ptr<MappedFile>> files;
  std::vector<std::shared_ptr<TorchFile>> opened;
};

// One function a format; `weights` are those of the same checkpoint.
void ReadRankStates(const MegatronCheckpoint& checkpoint, MegatronStates& states);
void ReadDistStates(const MegatronCheckpoint& checkpoint, MegatronStates& states);

// "param", "fp32_param", "exp_avg", …: the state that Megatron calls so; empty for a counter of steps. Refuses those of
// another optimizer than Adam.
std::string StateOf(std::string_view megatron, const std::string& where);
// Adds the numbers of updates that stand below `optimizer`.
void AddUpdates(const TorchFile& file, const PickleValue& optimizer, MegatronStates& states);

}  // namespace trireme
