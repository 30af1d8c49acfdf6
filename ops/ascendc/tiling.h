// How work is split over the cores of a device: how many blocks, and how many columns fit into a core's
// buffer at once. Plain arithmetic; knows no kernel.
#pragma once

#include <cstdint>

namespace trireme::ascendc {

enum class Element : uint32_t { kFloat, kHalf, kBfloat16 };  // as the kernels number them
constexpr uint32_t BytesOf(Element element) { return element == Element::kFloat ? 4 : 2; }

constexpr uint32_t kBufferBytes = 184 * 1024;  // of a vector core, without the part reserved for the system
constexpr uint32_t kSmallBuffers = 10240;      // reserved for statistics and other small buffers

// Where kernels run.
struct KernelPlace {
  void* stream = nullptr;
  uint32_t cores = 40;  // vector cores: 40 on a chip with 20 AI cores, 48 on one with 24
  // The most columns of a tile that need not hold a full row; smaller where host caches are the nearest
  // memory.
  uint32_t longest_tile = 1u << 30;
};

struct Tiling {
  uint32_t blocks = 1;
  uint32_t tile = 64;  // columns at once, a multiple of 64
};

// Splits `rows` over the cores; a column needs `bytes` of a core's buffer. One tile holds a row if possible.
Tiling TileRows(uint64_t rows, uint64_t columns, uint32_t bytes, const KernelPlace& place);

// The same for kernels that gain nothing from a full row at once: tiles are at most the place's longest_tile.
Tiling TilePieces(uint64_t rows, uint64_t columns, uint32_t bytes, const KernelPlace& place);

// `count` elements, in tiles split evenly over all cores; a tile has at least 2048 elements unless there are
// too few.
Tiling TileFlat(uint64_t count, uint32_t bytes, const KernelPlace& place);

// Throws if a launch function did not return 0.
void Launched(uint32_t code, const char* kernel);

// A size as a kernel's argument. Throws if it does not fit in 32 bits.
uint32_t Size32(uint64_t size, const char* what);

// Kernels take inputs by the same pointer type as outputs.
inline void* Address(const void* memory) { return const_cast<void*>(memory); }

}  // namespace trireme::ascendc
