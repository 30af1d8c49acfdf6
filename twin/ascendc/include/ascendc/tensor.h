// LocalTensor: elements in a core's own buffer. GlobalTensor: elements in the memory that all cores share.
// Both are addresses with a type; copies refer to the same memory. Element access is the scalar unit's.
#pragma once

#include <type_traits>

#include "ascendc/macros.h"
#include "ascendc/policy.h"
#include "ascendc/types.h"

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {

struct ShapeInfo {
  uint8_t shapeDim = 0;
  uint32_t shape[8] = {};
};

template <typename T>
class LocalTensor {
 public:
  using PrimType = T;

  LocalTensor() = default;
  LocalTensor(uint8_t* address, uint32_t bytes, TPosition position)
      : address_(address), bytes_(bytes), position_(position) {}

  T GetValue(uint32_t index, Where where = Where::Here()) const {
    policy::Reads(PIPE_S, data() + index, sizeof(T), "GetValue", where);
    return data()[index];
  }
  template <typename S>
  void SetValue(uint32_t index, S value, Where where = Where::Here()) const {
    policy::Writes(PIPE_S, data() + index, sizeof(T), "SetValue", where);
    data()[index] = static_cast<T>(value);
  }
  // To read or to write: the checked build takes it for a write.
  T& operator()(uint32_t index) const {
    policy::Writes(PIPE_S, data() + index, sizeof(T), "operator()", Where::Here());
    return data()[index];
  }
  LocalTensor operator[](uint32_t offset) const {
    const uint64_t skipped = BytesOf<T>(offset);
    return {address_ + skipped, static_cast<uint32_t>(bytes_ > skipped ? bytes_ - skipped : 0), position_};
  }
  template <typename U>
  LocalTensor<U> ReinterpretCast() const {
    return {address_, bytes_, position_};
  }

  uint32_t GetSize() const { return static_cast<uint32_t>(uint64_t{bytes_} * 2 / BytesOf<T>(2)); }
  void SetSize(uint32_t size) { bytes_ = static_cast<uint32_t>(BytesOf<T>(size)); }
  uint64_t GetPhyAddr() const { return reinterpret_cast<uint64_t>(address_); }
  uint64_t GetPhyAddr(uint32_t offset) const { return GetPhyAddr() + BytesOf<T>(offset); }
  int32_t GetPosition() const { return static_cast<int32_t>(position_); }
  void SetShapeInfo(const ShapeInfo& shape) { shape_ = shape; }
  ShapeInfo GetShapeInfo() const { return shape_; }

  // For this interface's own functions.
  T* data() const { return reinterpret_cast<T*>(address_); }
  uint8_t* bytes_begin() const { return address_; }

 private:
  uint8_t* address_ = nullptr;
  uint32_t bytes_ = 0;
  TPosition position_ = TPosition::VECCALC;
  ShapeInfo shape_;
};

enum class CacheMode { CACHE_MODE_DISABLE, CACHE_MODE_NORMAL };

template <typename T>
class GlobalTensor {
 public:
  using PrimType = T;

  void SetGlobalBuffer(__gm__ T* buffer) { begin_ = buffer, from_ = buffer, to_ = nullptr; }
  void SetGlobalBuffer(__gm__ T* buffer, uint64_t size) {
    begin_ = buffer, from_ = buffer, to_ = buffer + size;
  }

  GlobalTensor operator[](uint64_t offset) const {
    GlobalTensor moved = *this;
    moved.begin_ += offset;
    return moved;
  }
  T GetValue(uint64_t offset, Where where = Where::Here()) const {
    TWIN_TELL(ReadGlobal(PIPE_S, begin_ + offset, sizeof(T), from_, to_, policy::At("GetValue", where)));
    return begin_[offset];
  }
  template <typename S>
  void SetValue(uint64_t offset, S value, Where where = Where::Here()) const {
    TWIN_TELL(WriteGlobal(PIPE_S, begin_ + offset, sizeof(T), from_, to_, policy::At("SetValue", where)));
    begin_[offset] = static_cast<T>(value);
  }
  __gm__ T& operator()(uint64_t offset) const { return begin_[offset]; }

  const __gm__ T* GetPhyAddr() const { return begin_; }
  __gm__ T* GetPhyAddr(uint64_t offset) const { return begin_ + offset; }
  uint64_t GetSize() const { return to_ == nullptr ? 0 : static_cast<uint64_t>(to_ - begin_); }
  void SetShapeInfo(const ShapeInfo& shape) { shape_ = shape; }
  void SetL2CacheHint(CacheMode) {}

  T* data() const { return begin_; }
  const T* from() const { return from_; }
  const T* to() const { return to_; }  // null: not told

 private:
  T* begin_ = nullptr;
  const T *from_ = nullptr, *to_ = nullptr;
  ShapeInfo shape_;
};

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
