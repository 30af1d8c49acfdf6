// The data of a matrix case: a number per rank and index, from a hash, so that any rank can compute any
// other's.
#include <cstring>
#include <type_traits>

#include "tests/twin/hccl/conformance_matrix.h"

namespace conformance {
namespace {

uint64_t Hash(uint64_t rank, uint64_t place) {
  uint64_t x = (rank + 1) * 0x9E3779B97F4A7C15ull ^ (place + 1) * 0xD1B54A32D192ED03ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// A number of magnitude at most `limit`.
int64_t Within(uint64_t hash, int64_t limit) { return static_cast<int64_t>(hash % (2 * limit + 1)) - limit; }

// Summands whose sum over 8 ranks fits the type, and for floats is exact in fp32.
int64_t SumLimit(HcclDataType type) {
  switch (type) {
    case HCCL_DATA_TYPE_INT8:
      return 15;
    case HCCL_DATA_TYPE_INT16:
      return 4000;
    case HCCL_DATA_TYPE_INT32:
      return 1 << 27;
    case HCCL_DATA_TYPE_INT64:
      return int64_t{1} << 59;
    case HCCL_DATA_TYPE_FP16:
      return 2000;
    case HCCL_DATA_TYPE_BFP16:
      return 250;
    default:
      return 1000000;
  }
}

// Operands whose product over 8 ranks fits the type: an int8 holds six factors of two, no more.
double Factor(HcclDataType type, uint64_t hash, uint32_t rank) {
  const bool negative = hash & 1;
  double magnitude = 1 + static_cast<double>((hash >> 1) % 3);
  if (type == HCCL_DATA_TYPE_INT8) magnitude = 1 + static_cast<double>((hash >> 1) % 2 && rank < 6);
  if (type == HCCL_DATA_TYPE_FP16) magnitude = std::initializer_list<double>{0.5, 1, 1.5, 2}.begin()[(hash >> 1) % 4];
  return negative ? -magnitude : magnitude;
}

double RandomFloat(uint64_t hash) { return static_cast<double>(hash >> 12) / (1ull << 51) - 1; }

template <class T>
void Store(uint8_t* to, T value) {
  std::memcpy(to, &value, sizeof(value));
}

void StoreNumber(HcclDataType type, int64_t whole, double number, uint8_t* to) {
  switch (type) {
    case HCCL_DATA_TYPE_INT8:
      return Store(to, static_cast<int8_t>(whole));
    case HCCL_DATA_TYPE_INT16:
      return Store(to, static_cast<int16_t>(whole));
    case HCCL_DATA_TYPE_INT32:
      return Store(to, static_cast<int32_t>(whole));
    case HCCL_DATA_TYPE_INT64:
      return Store(to, whole);
    case HCCL_DATA_TYPE_FP32:
      return Store(to, static_cast<float>(number));
    default:
      return Store(to, EncodeHalf(number, FractionBits(type)));
  }
}

}  // namespace

Bytes Fill(HcclDataType type, HcclReduceOp op, Data data, uint32_t rank, size_t count) {
  const size_t width = Info(type).bytes;
  Bytes bytes(count * width);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t hash = Hash(rank, i);
    uint8_t* to = bytes.data() + i * width;
    if (data == Data::kBits) {
      std::memcpy(to, &hash, width);
    } else if (data == Data::kRandom) {
      StoreNumber(type, 0, RandomFloat(hash), to);
    } else if (op == HCCL_REDUCE_PROD) {
      const double factor = Factor(type, hash, rank);
      StoreNumber(type, static_cast<int64_t>(factor), factor, to);
    } else {
      const int64_t whole = Within(hash, SumLimit(type));
      StoreNumber(type, whole, static_cast<double>(whole), to);
    }
  }
  return bytes;
}

}  // namespace conformance
