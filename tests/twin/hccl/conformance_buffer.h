// A buffer for a collective, with guard bytes on both sides: device memory from aclrtMalloc, or plain host
// memory. The test accesses it only through copies, as a program on a real device must.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace conformance {

using Bytes = std::vector<uint8_t>;

enum class Memory { kDevice, kHost };

class Buffer {
 public:
  Buffer(Memory memory, const Bytes& content);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  uint8_t* data() const { return block_ + kGuard; }
  Bytes Read() const;          // the content without the guards
  bool guards_intact() const;  // as of the last Read

 private:
  static constexpr size_t kGuard = 72;  // 8 past a cache line: nothing is aligned by accident
  static constexpr uint8_t kMark = 0xC3;

  Memory memory_;
  size_t bytes_;
  uint8_t* block_ = nullptr;
  mutable bool guards_intact_ = true;
};

}  // namespace conformance
