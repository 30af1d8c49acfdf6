// PackedWriter: a way to write matrices packed into a Hugging Face directory: which tensors a matrix becomes, and their
// bytes. A way is a file and a line here. Knows no model: which matrices are packed is said by the caller.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/shard_plan.h"
#include "core/base/json.h"
#include "core/plan/packed_storage.h"

namespace trireme {

class PackedWriter {
 public:
  virtual ~PackedWriter() = default;
  // The tensors that take the place of a matrix of this type and shape.
  virtual std::vector<PlannedTensor> TensorsOf(const PlannedTensor& matrix) const = 0;
  // The bytes of one of them, `name`. values: of the matrix, in fp32, as its type has them.
  virtual std::vector<std::byte> BytesOf(const std::string& name, const PlannedTensor& matrix,
                                         const std::vector<float>& values) const = 0;
  // The quantization_config. skipped: linear modules that are not packed; compute: the type of the matrices.
  virtual Json Config(const std::vector<std::string>& skipped, DType compute) const = 0;
};

// The mean of scales, by the library that weights are packed with elsewhere.
using MeanOfFloats = std::function<float(std::vector<float>&)>;

std::unique_ptr<PackedWriter> FourBitWriter(const PackedStorage& storage,
                                            MeanOfFloats mean);  // bitsandbytes' nf4 and fp4
std::unique_ptr<PackedWriter> Int8Writer();                      // bitsandbytes' LLM.int8
std::unique_ptr<PackedWriter> Fp8Writer();                       // DeepSeek's blocks of 128 x 128

// Where a matrix is in the source: a tensor, or a part of a stack of them.
struct MatrixSlice {
  std::string source;
  int64_t first = 0;  // element of the source's tensor
  Shape shape;
};

struct PackOptions {
  const PackedWriter* writer = nullptr;
  std::map<std::string, MatrixSlice> matrices = {};  // by the names that they are written under
};

}  // namespace trireme
