// How work is cut for the cores of a device: how many blocks, and how many columns fit into a core's buffer
// at once. Plain arithmetic; what a kernel does with it is the kernel's matter.
#pragma once

#include <cstdint>

namespace trireme::ascendc {

enum class Element : uint32_t { kFloat, kHalf, kBfloat16 };  // as the kernels count them
constexpr uint32_t BytesOf(Element element) { return element == Element::kFloat ? 4 : 2; }

constexpr uint32_t kBufferBytes = 184 * 1024;  // of a vector core, without the system's share
constexpr uint32_t kSmallBuffers = 10240;      // kept free for statistics and the like

// Where kernels run.
struct KernelPlace {
  void* stream = nullptr;
  uint32_t cores = 40;  // vector cores: 40 on a part with 20 AI cores, 48 on one with 24
  // Columns of a tile that need not hold a whole row; less where the nearest memory is a host's cache.
  uint32_t longest_tile = 1u << 30;
};

struct Tiling {
  uint32_t blocks = 1;
  uint32_t tile = 64;  // columns at once, a multiple of 64
};

// `rows` over the cores; a column needs `bytes` of a core's buffer. One tile holds a row where it can.
Tiling TileRows(uint64_t rows, uint64_t columns, uint32_t bytes, const KernelPlace& place);

// The same for kernels that gain nothing from a whole row at once: tiles keep to the place's longest.
Tiling TilePieces(uint64_t rows, uint64_t columns, uint32_t bytes, const KernelPlace& place);

// `count` elements, in tiles that all cores share evenly; a tile is not shorter than 2048 elements where it
// need not be.
Tiling TileFlat(uint64_t count, uint32_t bytes, const KernelPlace& place);

// Throws where a launch function did not return 0.
void Launched(uint32_t code, const char* kernel);

// A size as a kernel takes it. Throws where 32 bits do not hold it.
uint32_t Size32(uint64_t size, const char* what);

// Kernels take what they read by the same pointer type as what they write.
inline void* Address(const void* memory) { return const_cast<void*>(memory); }

}  // namespace trireme::ascendc
