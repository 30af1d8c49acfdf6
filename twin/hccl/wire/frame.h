// Membership messages: a type and bytes, with a simple writer and reader for the bytes. All members run the
// same build on the same kind of machine, so numbers travel in memory layout. Not the format of any
// collective's data.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "twin/hccl/failure.h"

namespace twin {

enum class FrameType : uint32_t {
  // Between a member and the rendezvous, in this order.
  kHello = 1,
  kTable,
  kReady,
  kGo,
  kRejected,
  kCannotJoin,
  // Between two members.
  kIntroduction,
  kSubRoot,
  kGoodbye,
};

struct Frame {
  FrameType type{};
  std::string payload;
};

struct FrameHeader {
  uint32_t magic = kMagic;
  FrameType type{};
  uint64_t bytes = 0;

  static constexpr uint32_t kMagic = 0x5457484c;  // so that foreign bytes are not mistaken for a length
  static constexpr uint64_t kMaxBytes = 64u << 20;
};

class FrameWriter {
 public:
  template <typename Number>
    requires std::is_arithmetic_v<Number>
  FrameWriter& Put(Number value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  FrameWriter& Put(std::string_view text) {
    Put(static_cast<uint64_t>(text.size()));
    bytes_.append(text);
    return *this;
  }
  Frame Take(FrameType type) { return {type, std::move(bytes_)}; }

 private:
  std::string bytes_;
};

class FrameReader {
 public:
  explicit FrameReader(const Frame& frame) : rest_(frame.payload) {}

  template <typename Number>
    requires std::is_arithmetic_v<Number>
  Number Get() {
    Number value;
    std::memcpy(&value, Bytes(sizeof(value)).data(), sizeof(value));
    return value;
  }
  std::string GetText() { return std::string(Bytes(Get<uint64_t>())); }

 private:
  std::string_view Bytes(uint64_t count) {
    if (count > rest_.size()) throw HcclFailure(HCCL_E_TCP_TRANSFER, "a membership message is truncated");
    const std::string_view head = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return head;
  }

  std::string_view rest_;
};

}  // namespace twin
