// Buffers and copies: round trips, order on a stream, empty ones, ownership.
#include "core/device/buffer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/device/device.h"

namespace trireme {
namespace {

static_assert(!std::is_copy_constructible_v<DeviceBuffer> && std::is_nothrow_move_constructible_v<DeviceBuffer>);

TEST(Buffer, RoundTripThroughTheDevice) {
  const Device device(0);
  std::vector<uint8_t> source(1001);
  std::iota(source.begin(), source.end(), uint8_t{0});
  const DeviceBuffer first(source.size());
  const DeviceBuffer second(source.size());
  std::vector<uint8_t> target(source.size());
  Copy(first.data(), source.data(), source.size(), CopyKind::kHostToDevice);
  Copy(second.data(), first.data(), source.size(), CopyKind::kDeviceToDevice);
  Copy(target.data(), second.data(), source.size(), CopyKind::kDeviceToHost);
  EXPECT_EQ(source, target);
}

TEST(Buffer, AsynchronousCopiesAndFillsKeepTheirOrder) {
  const Device device(0);
  const Stream stream;
  constexpr size_t kBytes = 4096;
  const DeviceBuffer buffer(kBytes);
  const PinnedBuffer host(kBytes);
  FillAsync(buffer.data(), 0x5a, kBytes, stream);
  FillAsync(buffer.data(), 0x11, kBytes / 2, stream);
  CopyAsync(host.data(), buffer.data(), kBytes, CopyKind::kDeviceToHost, stream);
  stream.Synchronize();
  const auto* bytes = static_cast<const uint8_t*>(host.data());
  EXPECT_EQ(bytes[0], 0x11);
  EXPECT_EQ(bytes[kBytes / 2 - 1], 0x11);
  EXPECT_EQ(bytes[kBytes / 2], 0x5a);
  EXPECT_EQ(bytes[kBytes - 1], 0x5a);
}

TEST(Buffer, AnEmptyOneUsesNoMemoryAndCopiesNothing) {
  const Device device(0);
  const Stream stream;
  const DeviceBuffer empty(0);
  EXPECT_EQ(empty.data(), nullptr);
  EXPECT_NO_THROW(CopyAsync(empty.data(), nullptr, 0, CopyKind::kHostToDevice, stream));
  EXPECT_NO_THROW(FillAsync(empty.data(), 0, 0, stream));
}

TEST(Buffer, MoveTransfersOwnership) {
  const Device device(0);
  DeviceBuffer first(128);
  void* data = first.data();
  const DeviceBuffer second = std::move(first);
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(second.bytes(), 128u);
  EXPECT_EQ(first.data(), nullptr);  // NOLINT: the point is that a moved-from buffer is empty
}

}  // namespace
}  // namespace trireme
