// Writes matrices in 4 bits into a Hugging Face directory, as bitsandbytes does (packed_tensors.h reads them): which tensors a
// matrix becomes, and their bytes. Knows no model: which matrices are packed is said by the caller.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/shard_plan.h"
#include "core/packing/scales.h"
#include "core/plan/packed_storage.h"

namespace trireme {

struct PackOptions {
  PackedStorage storage;
  std::set<std::string> matrices = {};                  // names of tensors of the source
  std::vector<std::string> skipped = {};                // linear modules that are not packed, for config.json
  std::function<float(std::vector<float>&)> mean = {};  // of the scales, by the library that weights are packed with elsewhere
};

// The tensors that take the place of a matrix of this type and shape.
std::vector<PlannedTensor> PackedTensorsOf(const PlannedTensor& matrix, const PackedStorage& storage);

// The bytes of one of them, `name`. values: of the matrix, in fp32, as its type has them.
std::vector<std::byte> PackedBytes(const std::string& name, const PlannedTensor& matrix, const std::vector<float>& values,
                                   const PackOptions& options);

// config.json with the quantization_config of such a directory.
std::string PackedConfig(const std::string& text, const std::string& where, const PackOptions& options, DType compute);

}  // namespace trireme
