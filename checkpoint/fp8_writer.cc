// Matrices in fp8 with scales of blocks, as DeepSeek-V3 is published (fp8_blocks.h).
#include <cstring>

#include "checkpoint/fp8_blocks.h"
#include "checkpoint/packed_writer.h"

namespace trireme {
namespace {

class Fp8Blocks : public PackedWriter {
 public:
  std::vector<PlannedTensor> TensorsOf(const PlannedTensor& matrix) const override {
    const auto blocks = [&](size_t dim) { return (matrix.shape[dim] + kFp8Block - 1) / kFp8Block; };
    return {{matrix.name, DType::kFp8E4M3, matrix.shape},
            {matrix.name + kFp8ScaleSuffix, DType::kFp32, {blocks(0), blocks(1)}}};
  }

  std::vector<std::byte> BytesOf(const std::string& name, const PlannedTensor& matrix,
                                 const std::vector<float>& values) const override {
    const Fp8Matrix packed = PackFp8(values, matrix.shape[0], matrix.shape[1]);
    const bool codes = name == matrix.name;
    std::vector<std::byte> bytes(codes ? packed.codes.size() : packed.scales.size() * sizeof(float));
    std::memcpy(bytes.data(), codes ? static_cast<const void*>(packed.codes.data()) : packed.scales.data(),
                bytes.size());
    return bytes;
  }

  Json Config(const std::vector<std::string>& skipped, DType /*compute*/) const override {
    Json how;
    how["quant_method"] = "fp8";
    how["fmt"] = "e4m3";
    how["activation_scheme"] = "dynamic";
    how["weight_block_size"] = {kFp8Block, kFp8Block};
    how["modules_to_not_convert"] = skipped;
    return how;
  }
};

}  // namespace

std::unique_ptr<PackedWriter> Fp8Writer() { return std::make_unique<Fp8Blocks>(); }

}  // namespace trireme
