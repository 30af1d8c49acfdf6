#include "launch/verify_all_reduce.h"

#include <cstddef>

#include "core/base/error.h"
#include "core/device/buffer.h"
#include "launch/pattern.h"

namespace trireme {
namespace {

// Odd, and larger than any block of the implementation's small-message pipeline.
constexpr size_t kCount = 40'001;
constexpr DType kTypes[] = {DType::kFp32, DType::kBf16, DType::kFp16, DType::kInt32, DType::kInt64, DType::kInt8};

void VerifyType(Communicator& communicator, DType dtype) {
  const int rank = communicator.rank();
  const std::vector<std::byte> source = MakePattern(dtype, kCount, [rank](size_t i) { return PatternValue(rank, i); });
  std::vector<std::byte> result(source.size());
  const DeviceBuffer device_source(source.size());
  const DeviceBuffer device_target(source.size());
  Copy(device_source.data(), source.data(), source.size(), CopyKind::kHostToDevice);
  communicator.AllReduce(device_source.data(), device_target.data(), kCount, dtype, ReduceOp::kSum).Wait();
  Copy(result.data(), device_target.data(), result.size(), CopyKind::kDeviceToHost);
  const std::string difference =
      ComparePattern(dtype, result.data(), kCount, [&](size_t i) { return PatternSum(communicator.size(), i); });
  if (difference.empty()) return;
  throw RuntimeError("wrong all_reduce of ", Name(dtype), " over group ", communicator.name(), " (rank ", rank, " of ",
                     communicator.size(), "): ", difference);
}

}  // namespace

std::vector<std::string> VerifyAllReduce(Communicator& communicator) {
  std::vector<std::string> verified;
  for (DType dtype : kTypes) {
    VerifyType(communicator, dtype);
    verified.emplace_back(Name(dtype));
  }
  return verified;
}

}  // namespace trireme
