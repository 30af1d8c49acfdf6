// The kernels: plain loops over blocks that stay in registers or L1. On x86_64 the same loops are compiled
// for three instruction sets and the best one for the machine is chosen; elsewhere there is one version.
#include "twin/hccl/data_path/reduce.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "twin/hccl/data_path/float_bits.h"

namespace twin {
namespace {

// A type's memory representation, its accumulation type, and the conversions between them.
template <typename Stored, typename Accumulated>
struct PlainType {
  using Memory = Stored;
  using Accumulator = Accumulated;
  static TWIN_INLINE Accumulator Load(Memory value) { return static_cast<Accumulator>(value); }
  static TWIN_INLINE Memory Store(Accumulator value) { return static_cast<Memory>(value); }
};

struct Bf16Type {
  using Memory = uint16_t;
  using Accumulator = float;
  static TWIN_INLINE float Load(uint16_t value) { return Bf16ToFloat(value); }
  static TWIN_INLINE uint16_t Store(float value) { return FloatToBf16(value); }
};

struct Fp16Type {
  using Memory = uint16_t;
  using Accumulator = float;
  static TWIN_INLINE float Load(uint16_t value) { return Fp16ToFloat(value); }
  static TWIN_INLINE uint16_t Store(float value) { return FloatToFp16(value); }
};

// Integer sums and products wrap, so they are computed unsigned, where wrapping is defined.
template <typename T, bool kInteger = std::is_integral_v<T>>
struct Wrapping {
  using type = T;
};
template <typename T>
struct Wrapping<T, true> {
  using type = std::make_unsigned_t<T>;
};

template <HcclReduceOp kOp, typename T>
TWIN_INLINE T Combine(T a, T b) {
  using W = typename Wrapping<T>::type;
  if constexpr (kOp == HCCL_REDUCE_SUM) return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
  // Widening keeps uint8 and uint16 operands from being promoted to (signed) int.
  if constexpr (kOp == HCCL_REDUCE_PROD && std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(static_cast<W>(a)) * static_cast<W>(b));
  if constexpr (kOp == HCCL_REDUCE_PROD) return a * b;
  if constexpr (kOp == HCCL_REDUCE_MAX) return (a > b || a != a) ? a : b;
  if constexpr (kOp == HCCL_REDUCE_MIN) return (a < b || a != a) ? a : b;
}

// Buffers may have any alignment: this type makes compilers emit unaligned vector loads and stores.
template <typename Memory>
using Unaligned [[gnu::aligned(1), gnu::may_alias]] = Memory;

// Two sources, the common case, in one pass. `out` may be a or b but never overlaps them partly: hence ivdep.
template <typename Type, HcclReduceOp kOp>
TWIN_INLINE void ReducePair(Unaligned<typename Type::Memory>* out, const Unaligned<typename Type::Memory>* a,
                            const Unaligned<typename Type::Memory>* b, size_t count) {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) out[i] = Type::Store(Combine<kOp>(Type::Load(a[i]), Type::Load(b[i])));
}

// Any number of sources, `kBlock` elements at a time, accumulated in an array that stays in registers or L1.
// Each block is copied first: GCC vectorises fixed-size local arrays where it gives up on pointers.
template <typename Type, HcclReduceOp kOp, size_t kBlock>
TWIN_INLINE void ReduceBlock(std::byte* out, const void* const* sources, size_t source_count, size_t offset) {
  typename Type::Accumulator sum[kBlock];
  typename Type::Memory block[kBlock];
  std::memcpy(block, static_cast<const std::byte*>(sources[0]) + offset, sizeof(block));
  for (size_t i = 0; i < kBlock; ++i) sum[i] = Type::Load(block[i]);
  for (size_t s = 1; s < source_count; ++s) {
    std::memcpy(block, static_cast<const std::byte*>(sources[s]) + offset, sizeof(block));
    for (size_t i = 0; i < kBlock; ++i) sum[i] = Combine<kOp>(sum[i], Type::Load(block[i]));
  }
  for (size_t i = 0; i < kBlock; ++i) block[i] = Type::Store(sum[i]);
  std::memcpy(out + offset, block, sizeof(block));
}

template <typename Type, HcclReduceOp kOp>
TWIN_INLINE void ReduceAll(void* dst, const void* const* sources, size_t source_count, size_t count) {
  using Memory = Unaligned<typename Type::Memory>;
  if (source_count == 2) {
    const Memory* const a = static_cast<const Memory*>(sources[0]);
    const Memory* const b = static_cast<const Memory*>(sources[1]);
    return ReducePair<Type, kOp>(static_cast<Memory*>(dst), a, b, count);
  }
  constexpr size_t kBlock = 256 / sizeof(Memory);
  std::byte* const out = static_cast<std::byte*>(dst);
  size_t done = 0;
  for (; done + kBlock <= count; done += kBlock)
    ReduceBlock<Type, kOp, kBlock>(out, sources, source_count, done * sizeof(Memory));
  for (; done < count; ++done) ReduceBlock<Type, kOp, 1>(out, sources, source_count, done * sizeof(Memory));
}

using Kernel = void (*)(void* dst, const void* const* sources, size_t source_count, size_t count);

template <typename Type, HcclReduceOp kOp>
void ReducePlain(void* dst, const void* const* sources, size_t source_count, size_t count) {
  ReduceAll<Type, kOp>(dst, sources, source_count, count);
}

#if defined(__x86_64__) && defined(__GNUC__)
template <typename Type, HcclReduceOp kOp>
__attribute__((target("arch=x86-64-v3"))) void ReduceAvx2(void* dst, const void* const* sources, size_t source_count,
                                                          size_t count) {
  ReduceAll<Type, kOp>(dst, sources, source_count, count);
}

template <typename Type, HcclReduceOp kOp>
__attribute__((target("arch=x86-64-v4"))) void ReduceAvx512(void* dst, const void* const* sources, size_t source_count,
                                                            size_t count) {
  ReduceAll<Type, kOp>(dst, sources, source_count, count);
}

template <typename Type, HcclReduceOp kOp>
Kernel BestKernel() {
  if (__builtin_cpu_supports("x86-64-v4")) return ReduceAvx512<Type, kOp>;
  if (__builtin_cpu_supports("x86-64-v3")) return ReduceAvx2<Type, kOp>;
  return ReducePlain<Type, kOp>;
}
#else
template <typename Type, HcclReduceOp kOp>
Kernel BestKernel() {
  return ReducePlain<Type, kOp>;
}
#endif

template <typename Type>
Kernel KernelForOp(HcclReduceOp op) {
  switch (op) {
    case HCCL_REDUCE_SUM:
      return BestKernel<Type, HCCL_REDUCE_SUM>();
    case HCCL_REDUCE_PROD:
      return BestKernel<Type, HCCL_REDUCE_PROD>();
    case HCCL_REDUCE_MAX:
      return BestKernel<Type, HCCL_REDUCE_MAX>();
    case HCCL_REDUCE_MIN:
      return BestKernel<Type, HCCL_REDUCE_MIN>();
    default:
      return nullptr;
  }
}

Kernel FindKernel(HcclDataType type, HcclReduceOp op) {
  switch (type) {
    case HCCL_DATA_TYPE_INT8:
      return KernelForOp<PlainType<int8_t, int8_t>>(op);
    case HCCL_DATA_TYPE_INT16:
      return KernelForOp<PlainType<int16_t, int16_t>>(op);
    case HCCL_DATA_TYPE_INT32:
      return KernelForOp<PlainType<int32_t, int32_t>>(op);
    case HCCL_DATA_TYPE_INT64:
      return KernelForOp<PlainType<int64_t, int64_t>>(op);
    case HCCL_DATA_TYPE_FP32:
      return KernelForOp<PlainType<float, float>>(op);
    case HCCL_DATA_TYPE_FP16:
      return KernelForOp<Fp16Type>(op);
    case HCCL_DATA_TYPE_BFP16:
      return KernelForOp<Bf16Type>(op);
    default:
      return nullptr;
  }
}

}  // namespace

bool ReductionSupported(HcclDataType type, HcclReduceOp op) {
  if (op == HCCL_REDUCE_PROD && (type == HCCL_DATA_TYPE_INT16 || type == HCCL_DATA_TYPE_BFP16)) return false;
  return FindKernel(type, op) != nullptr;
}

void Reduce(HcclDataType type, HcclReduceOp op, void* dst, const void* const* sources, size_t source_count,
            size_t count) {
  FindKernel(type, op)(dst, sources, source_count, count);
}

}  // namespace twin
