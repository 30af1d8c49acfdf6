// LocalTensor: elements in a core's own buffer. GlobalTensor: elements in the memory that all cores share.
// Both are typed addresses; copies refer to the same memory. Element access belongs to the scalar unit.
#pragma once

#include <deque>
#include <type_traits>

#include "ascendc/macros.h"
#include "ascendc/policy.h"
#include "ascendc/types.h"

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {

enum class DataFormat : uint8_t { ND, NZ, NCHW, NC1HWC0, NHWC };

// A shape that the user attaches to a tensor; no function reads it.
struct ShapeInfo {
  static constexpr uint8_t kMostDims = 8;
  uint8_t shapeDim = 0;
  uint32_t shape[kMostDims] = {};
  uint8_t originalShapeDim = 0;
  uint32_t originalShape[kMostDims] = {};
  DataFormat dataFormat = DataFormat::ND;

  ShapeInfo() = default;
  bool operator==(const ShapeInfo&) const = default;
  ShapeInfo(uint8_t dims, const uint32_t sizes[], DataFormat format = DataFormat::ND)
      : ShapeInfo(dims, sizes, dims, sizes, format) {}
  ShapeInfo(uint8_t dims, const uint32_t sizes[], uint8_t original_dims, const uint32_t original[], DataFormat format)
      : shapeDim(dims), originalShapeDim(original_dims), dataFormat(format) {
    for (uint8_t i = 0; i < dims && i < kMostDims; ++i) shape[i] = sizes[i];
    for (uint8_t i = 0; i < original_dims && i < kMostDims; ++i) originalShape[i] = original[i];
  }
};
// Shapes are few and tensors are copied often: a tensor holds an index into this list of all shapes set.
inline const ShapeInfo* KeptShape(const ShapeInfo& shape) {
  thread_local std::deque<ShapeInfo> kept;
  for (const ShapeInfo& known : kept)
    if (known == shape) return &known;
  return &kept.emplace_back(shape);
}
inline int GetShapeSize(const ShapeInfo& info) {
  int size = 1;
  for (uint8_t i = 0; i < info.shapeDim; ++i) size *= static_cast<int>(info.shape[i]);
  return size;
}

// What `a + b` means until it is assigned: a whole-tensor operation, computed into the assigned tensor.
template <typename Work>
struct WholeTensors {
  Work work;
};

// Which of a core's memories a position is in.
constexpr twin::ascendc::Memory MemoryOf(TPosition position) {
  using enum twin::ascendc::Memory;
  switch (position) {
    case TPosition::A1:
    case TPosition::B1:
    case TPosition::C1:
    case TPosition::TSCM:
      return kL1;
    case TPosition::A2:
      return kL0a;
    case TPosition::B2:
      return kL0b;
    case TPosition::CO1:
      return kL0c;
    case TPosition::C2:
      return kBiasTable;
    case TPosition::C2PIPE2GM:
      return kFixpipe;
    default:
      return kUb;
  }
}

template <typename T>
class LocalTensor {
 public:
  using PrimType = T;

  LocalTensor() = default;
  LocalTensor(uint8_t* address, uint32_t bytes, TPosition position)
      : address_(address), bytes_(bytes), position_(position) {}
  template <typename Work>
  LocalTensor& operator=(const WholeTensors<Work>& whole) {
    whole.work(*this);
    return *this;
  }

  T GetValue(uint32_t index, Where where = Where::Here()) const {
    static_assert(!std::is_same_v<T, int4b_t>, "an int4b_t is half a byte: ReinterpretCast<int8_t>() first");
    policy::Reads(PIPE_S, data() + index, sizeof(T), "GetValue", where);
    return data()[index];
  }
  template <typename S>
  void SetValue(uint32_t index, S value, Where where = Where::Here()) const {
    static_assert(!std::is_same_v<T, int4b_t>, "an int4b_t is half a byte: ReinterpretCast<int8_t>() first");
    policy::Writes(PIPE_S, data() + index, sizeof(T), "SetValue", where);
    data()[index] = static_cast<T>(value);
  }
  // For reading or writing: the checked build treats it as a write.
  T& operator()(uint32_t index, Where where = Where::Here()) const {
    policy::Writes(PIPE_S, data() + index, sizeof(T), "operator()", where);
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
  uint32_t GetLength() const { return bytes_; }  // bytes
  void SetBufferLen(uint32_t size) { SetSize(size); }
  void SetAddrWithOffset(const LocalTensor& of, uint32_t offset) { *this = of[offset]; }
  void SetUserTag(int32_t tag) { tag_ = tag; }
  int32_t GetUserTag() const { return tag_; }
  void SetShapeInfo(const ShapeInfo& shape) { shape_ = KeptShape(shape); }
  ShapeInfo GetShapeInfo() const { return shape_ == nullptr ? ShapeInfo() : *shape_; }

  // For this interface's own functions.
  T* data() const { return reinterpret_cast<T*>(address_); }
  uint8_t* bytes_begin() const { return address_; }

 private:
  uint8_t* address_ = nullptr;
  uint32_t bytes_ = 0;
  TPosition position_ = TPosition::VECCALC;
  int32_t tag_ = 0;
  const ShapeInfo* shape_ = nullptr;
};

// An operator cannot receive its call site, but what its right-hand side converts to can.
template <typename T>
struct RightSide {
  LocalTensor<T> tensor;
  Where where;
  RightSide(const LocalTensor<T>& given, Where here = Where::Here()) : tensor(given), where(here) {}
};

enum class CacheMode { CACHE_MODE_DISABLE, CACHE_MODE_NORMAL };
enum class CacheRwMode { READ = 1, WRITE, RW };

template <typename T>
class GlobalTensor {
 public:
  using PrimType = T;

  void SetGlobalBuffer(__gm__ T* buffer) { begin_ = buffer, from_ = buffer, to_ = nullptr; }
  void SetGlobalBuffer(__gm__ T* buffer, uint64_t size) { begin_ = buffer, from_ = buffer, to_ = After(buffer, size); }

  GlobalTensor operator[](uint64_t offset) const {
    GlobalTensor moved = *this;
    moved.begin_ = After(begin_, offset);
    return moved;
  }
  T GetValue(uint64_t offset, Where where = Where::Here()) const {
    static_assert(!std::is_same_v<T, int4b_t>, "an int4b_t is half a byte: make it a GlobalTensor<int8_t>");
    TWIN_TELL(ReadGlobal(PIPE_S, begin_ + offset, sizeof(T), from_, to_, policy::At("GetValue", where)));
    return begin_[offset];
  }
  template <typename S>
  void SetValue(uint64_t offset, S value, Where where = Where::Here()) const {
    static_assert(!std::is_same_v<T, int4b_t>, "an int4b_t is half a byte: make it a GlobalTensor<int8_t>");
    TWIN_TELL(WriteGlobal(PIPE_S, begin_ + offset, sizeof(T), from_, to_, policy::At("SetValue", where)));
    begin_[offset] = static_cast<T>(value);
  }
  // For reading or writing: the checked build checks only the bounds.
  __gm__ T& operator()(uint64_t offset, Where where = Where::Here()) const {
    TWIN_TELL(Bounds(begin_ + offset, sizeof(T), from_, to_, policy::At("operator()", where)));
    return begin_[offset];
  }

  const __gm__ T* GetPhyAddr() const { return begin_; }
  __gm__ T* GetPhyAddr(uint64_t offset) const { return After(begin_, offset); }
  uint64_t GetSize() const {
    return to_ == nullptr ? 0 : static_cast<uint64_t>(to_ - begin_) * 2 * sizeof(T) / BytesOf<T>(2);
  }
  void SetShapeInfo(const ShapeInfo& shape) { shape_ = KeptShape(shape); }
  ShapeInfo GetShapeInfo() const { return shape_ == nullptr ? ShapeInfo() : *shape_; }
  // A host's caches take no hints.
  template <CacheRwMode mode = CacheRwMode::RW>
  void SetL2CacheHint(CacheMode) {}

  T* data() const { return begin_; }
  const T* from() const { return from_; }
  const T* to() const { return to_; }  // null: unknown

 private:
  // Two int4b_t share a byte; every other type has one element per address.
  static T* After(T* from, uint64_t elements) { return from + BytesOf<T>(elements) / sizeof(T); }

  T* begin_ = nullptr;
  const T *from_ = nullptr, *to_ = nullptr;
  const ShapeInfo* shape_ = nullptr;
};

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
