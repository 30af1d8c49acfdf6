// Hopper's own instructions, for files that are compiled for sm_90a (*_hopper_kernel.cu): copies of tiles by tensor
// maps, the barriers on which they complete, clusters of two blocks, matrix products of a warpgroup. One function per
// instruction; what is copied and multiplied, and in which order, is up to a kernel.
#pragma once

#include <cuda.h>

#include "ops/cuda/device.cuh"

namespace trireme::cuda {

inline constexpr int kWarpgroup = 128;  // threads

__device__ inline uint32_t SharedAddress(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

// Barriers in shared memory. A phase completes when all have arrived and all expected bytes have been copied.

__device__ inline void InitBarrier(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(barrier)), "r"(arrivals));
}
// Of all barriers that this thread has initialised, for the copy engine and for the cluster's other block.
__device__ inline void PublishBarriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void ArriveExpecting(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SharedAddress(barrier)), "r"(bytes)
               : "memory");
}
__device__ inline void Arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SharedAddress(barrier)) : "memory");
}
// At the barrier at the same place in a block of this cluster. What was written to memory before need not be seen
// there: for that the arrival would wait for all writes of this thread.
__device__ inline void ArriveAt(uint64_t* barrier, uint32_t block) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}" ::"r"(SharedAddress(barrier)),
      "r"(block)
      : "memory");
}
// For the phase of this parity; that before the first phase counts as complete.
__device__ inline void WaitFor(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(SharedAddress(barrier)),
      "r"(parity)
      : "memory");
}

__device__ inline uint32_t BlockInCluster() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
// All threads of all blocks of the cluster.
__device__ inline void SyncCluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// `threads` threads of this block that name the same barrier, 1 to 15.
__device__ inline void SyncThreads(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Copies of tiles, described by tensor maps. They start now; a barrier, or a group, says when they are complete.

__device__ inline void FetchMap(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
__device__ inline void LoadTile(const CUtensorMap* map, void* shared, uint64_t* barrier, int column, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
          SharedAddress(shared)),
      "l"(map), "r"(SharedAddress(barrier)), "r"(column), "r"(row)
      : "memory");
}
// To the same place in each of the cluster's `blocks` (a bit each); each one's barrier counts the bytes.
__device__ inline void LoadTileInto(uint16_t blocks, const CUtensorMap* map, void* shared, uint64_t* barrier,
                                    int column, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%4, %5}], [%2], %3;" ::"r"(SharedAddress(shared)),
      "l"(map), "r"(SharedAddress(barrier)), "h"(blocks), "r"(column), "r"(row)
      : "memory");
}
__device__ inline void StoreTile(const CUtensorMap* map, const void* shared, int column, int row, int matrix) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
               "r"(SharedAddress(shared)), "r"(column), "r"(row), "r"(matrix)
               : "memory");
}
// What is in memory plus the tile.
__device__ inline void AddTile(const CUtensorMap* map, const void* shared, int column, int row, int matrix) {
  asm volatile(
      "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
      "r"(SharedAddress(shared)), "r"(column), "r"(row), "r"(matrix)
      : "memory");
}
// Stores of this thread so far become a group.
__device__ inline void CloseStores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Until at most kOpen groups have still to read shared memory.
template <int kOpen>
__device__ inline void WaitForReads() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kOpen) : "memory");
}
__device__ inline void WaitForStores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
// What this thread has written to shared memory can be read by the copy engine and by products, after a barrier.
__device__ inline void PublishShared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Products of a warpgroup: [64, 16] · [16, 256] in bf16, added in fp32 to 128 registers of each thread.

inline constexpr int kSumsPerThread = 128;

// Tiles of 128-byte rows, swizzled, of which each holds 64 elements of the dim that is not summed over; the next 64 are
// `apart` bytes away. Eight rows are 1024 bytes.
__device__ inline uint64_t Operand(const void* shared, uint32_t apart) {
  constexpr uint64_t kSwizzle128 = 1, kEightRows = 1024;
  const uint64_t address = SharedAddress(shared) & 0x3FFFFu;
  return address >> 4 | static_cast<uint64_t>(apart >> 4) << 16 | (kEightRows >> 4) << 32 | kSwizzle128 << 62;
}
__device__ inline void BeginProducts() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void CloseProducts() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until at most kOpen groups of products are incomplete.
template <int kOpen>
__device__ inline void WaitForProducts() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kOpen) : "memory");
}
// Sums are not read, written or moved across this.
__device__ inline void KeepInPlace(float (&sums)[kSumsPerThread]) {
#pragma unroll
  for (int i = 0; i < kSumsPerThread; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

#define TRIREME_EIGHT(sums, i)                                                                                  \
  "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3]), "+f"(sums[i + 4]), "+f"(sums[i + 5]), \
      "+f"(sums[i + 6]), "+f"(sums[i + 7])
#define TRIREME_THIRTY_TWO(sums, i) \
  TRIREME_EIGHT(sums, i), TRIREME_EIGHT(sums, i + 8), TRIREME_EIGHT(sums, i + 16), TRIREME_EIGHT(sums, i + 24)
// Both operands are stored with the dim that is summed over as their rows.
__device__ inline void Multiply(float (&sums)[kSumsPerThread], uint64_t a, uint64_t b) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, 1, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
      "%128, %129, add, 1, 1, 1, 1;\n"
      "}"
      : TRIREME_THIRTY_TWO(sums, 0), TRIREME_THIRTY_TWO(sums, 32), TRIREME_THIRTY_TWO(sums, 64),
        TRIREME_THIRTY_TWO(sums, 96)
      : "l"(a), "l"(b));
}
#undef TRIREME_THIRTY_TWO
#undef TRIREME_EIGHT

// A warpgroup that only copies needs few registers, those that multiply many: together at most 504 per thread of three.
template <int kCount>
__device__ inline void FewerRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ inline void MoreRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

}  // namespace trireme::cuda
