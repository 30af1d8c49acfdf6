// Device and host memory: capacity and accounting, alignment, refusals, pages released, the memory file
// shared with another process. Runs with 0.25 GB per device (see CMakeLists.txt).
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "tests/twin/acl/acl_test.h"

namespace twin {
namespace {

constexpr size_t kCapacity = size_t{256} << 20;
constexpr size_t kMegabyte = size_t{1} << 20;

class MemoryTest : public AclTest {
 protected:
  static size_t Free() {
    size_t free = 0;
    size_t total = 0;
    EXPECT_OK(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
    EXPECT_EQ(total, kCapacity);
    return free;
  }
  static void* Allocate(size_t bytes) {
    void* memory = nullptr;
    EXPECT_OK(aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    return memory;
  }
  // How much memory the memory file actually occupies.
  static size_t ResidentBytes() {
    struct stat status{};
    EXPECT_EQ(fstat(DeviceArena(0).fd, &status), 0);
    return static_cast<size_t>(status.st_blocks) * 512;
  }
};

TEST_F(MemoryTest, CountsThePaddedSizeAndFreesIt) {
  EXPECT_EQ(Free(), kCapacity);
  void* memory = Allocate(100);
  EXPECT_EQ(Free(), kCapacity - 160);  // rounded up to a multiple of 32, plus 32
  void* unpadded = nullptr;
  ASSERT_OK(aclrtMallocAlign32(&unpadded, 100, ACL_MEM_MALLOC_NORMAL_ONLY));
  EXPECT_EQ(Free(), kCapacity - 160 - 128);
  EXPECT_OK(aclrtFree(memory));
  EXPECT_OK(aclrtFree(unpadded));
  EXPECT_EQ(Free(), kCapacity);
}

TEST_F(MemoryTest, AlignsToSixtyFourBytes) {
  std::vector<void*> all;
  for (size_t bytes : {1, 31, 32, 33, 1000, 5000, 3000000}) {
    all.push_back(Allocate(bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(all.back()) % 64, 0u);
    std::memset(all.back(), 0x5A, bytes);
  }
  for (void* memory : all) EXPECT_OK(aclrtFree(memory));
}

TEST_F(MemoryTest, OutOfMemoryHasItsCodeAndLeavesTheRestUsable) {
  void* most = Allocate(200 * kMegabyte);
  void* more = nullptr;
  EXPECT_REFUSED(aclrtMalloc(&more, 100 * kMegabyte, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_MEMORY_ALLOCATION,
                 "device 0 is out of memory: 104857632 bytes wanted");
  EXPECT_REFUSED(aclrtMalloc(&more, SIZE_MAX, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_MEMORY_ALLOCATION, "out of");
  EXPECT_REFUSED(aclrtMalloc(&more, SIZE_MAX - 16, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_MEMORY_ALLOCATION, "");
  more = Allocate(50 * kMegabyte);
  ASSERT_OK(aclrtSetDevice(1));
  EXPECT_EQ(Free(), kCapacity);
  EXPECT_OK(aclrtResetDevice(1));
  ASSERT_OK(aclrtSetDevice(0));
  EXPECT_OK(aclrtFree(most));
  EXPECT_OK(aclrtFree(more));
}

TEST_F(MemoryTest, RefusesWrongSizesPoliciesAndPointers) {
  void* memory = nullptr;
  EXPECT_REFUSED(aclrtMalloc(&memory, 0, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM, "size is 0");
  EXPECT_REFUSED(aclrtMalloc(nullptr, 8, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM, "devPtr is null");
  EXPECT_REFUSED(aclrtMalloc(&memory, 8, static_cast<aclrtMemMallocPolicy>(99)), ACL_ERROR_INVALID_PARAM, "policy 99");
  memory = Allocate(256);
  EXPECT_REFUSED(aclrtFree(static_cast<char*>(memory) + 64), ACL_ERROR_RT_PARAM_INVALID, "inside an allocation");
  int on_stack = 0;
  EXPECT_REFUSED(aclrtFree(&on_stack), ACL_ERROR_RT_PARAM_INVALID, "is host memory");
  EXPECT_REFUSED(aclrtFree(nullptr), ACL_ERROR_INVALID_PARAM, "devPtr is null");
  EXPECT_OK(aclrtFree(memory));
  EXPECT_REFUSED(aclrtFree(memory), ACL_ERROR_RT_PARAM_INVALID, "was it already freed?");
}

TEST_F(MemoryTest, HostMemoryIsSeparate) {
  void* host = nullptr;
  ASSERT_OK(aclrtMallocHost(&host, 1000));
  std::memset(host, 1, 1000);
  EXPECT_REFUSED(aclrtFree(host), ACL_ERROR_RT_PARAM_INVALID, "is pinned host memory");
  EXPECT_OK(aclrtFreeHost(host));
  EXPECT_REFUSED(aclrtFreeHost(host), ACL_ERROR_RT_PARAM_INVALID, "wanted what aclrtMallocHost returned");
  void* device = Allocate(64);
  EXPECT_REFUSED(aclrtFreeHost(device), ACL_ERROR_RT_PARAM_INVALID, "is memory of device 0");
  EXPECT_OK(aclrtFree(device));
  EXPECT_REFUSED(aclrtMallocHost(&host, 0), ACL_ERROR_INVALID_PARAM, "size is 0");
}

TEST_F(MemoryTest, FreeingReturnsPagesToTheSystem) {
  const size_t before = ResidentBytes();
  void* small = Allocate(100);  // shares its page with nothing that is freed
  void* large = Allocate(32 * kMegabyte);
  std::memset(large, 1, 32 * kMegabyte);
  EXPECT_GE(ResidentBytes(), before + 32 * kMegabyte);
  EXPECT_OK(aclrtFree(large));
  EXPECT_LT(ResidentBytes(), before + 4 * kMegabyte);
  EXPECT_OK(aclrtFree(small));
}

TEST_F(MemoryTest, ManySmallFreesReturnTheirSharedPages) {
  std::vector<void*> all;
  for (int i = 0; i < 20000; ++i) {
    all.push_back(Allocate(500));
    std::memset(all.back(), 1, 500);
  }
  EXPECT_GE(ResidentBytes(), 20000u * 500);
  for (size_t i = 0; i < all.size(); i += 2) EXPECT_OK(aclrtFree(all[i]));
  for (size_t i = 1; i < all.size(); i += 2) EXPECT_OK(aclrtFree(all[i]));
  EXPECT_LT(ResidentBytes(), 20000u * 500 / 10);  // a huge page may stay until its last part is freed
}

TEST_F(MemoryTest, RandomUseKeepsContentsAndAccounting) {
  struct Block {
    size_t bytes;
    unsigned char mark;
  };
  std::map<unsigned char*, Block> living;
  std::mt19937 random(11);
  size_t counted = 0;
  const auto padded = [](size_t bytes) { return (bytes + 31) / 32 * 32 + 32; };
  for (int step = 0; step < 8000; ++step) {
    if (living.size() < 20 || random() % 2 == 0) {
      const size_t bytes = 1 + random() % (random() % 20 == 0 ? 3 * kMegabyte : 8000);
      void* memory = nullptr;
      const aclError error = aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
      ASSERT_EQ(error == ACL_SUCCESS, counted + padded(bytes) <= kCapacity);
      if (error != ACL_SUCCESS) continue;
      counted += padded(bytes);
      auto* begin = static_cast<unsigned char*>(memory);
      living[begin] = {bytes, static_cast<unsigned char>(random())};
      begin[0] = begin[bytes - 1] = living[begin].mark;
    } else {
      const auto chosen = std::next(living.begin(), random() % living.size());
      const auto [begin, block] = *chosen;
      ASSERT_EQ(begin[0], block.mark);
      ASSERT_EQ(begin[block.bytes - 1], block.mark);
      ASSERT_OK(aclrtFree(begin));
      counted -= padded(block.bytes);
      living.erase(chosen);
    }
    ASSERT_EQ(Free(), kCapacity - counted);
  }
  for (const auto& [begin, block] : living) ASSERT_OK(aclrtFree(begin));
  EXPECT_EQ(Free(), kCapacity);
}

TEST_F(MemoryTest, AnotherProcessFindsAllocationsAtTheirOffsets) {
  auto* memory = static_cast<int*>(Allocate(4096));
  memory[7] = 41;
  const size_t offset = ArenaOffset(0, memory, 4096);
  ASSERT_NE(offset, SIZE_MAX);
  const Arena arena = DeviceArena(0);
  const pid_t child = fork();
  if (child == 0) {
    void* mapped = mmap(nullptr, arena.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, arena.fd, 0);
    if (mapped == MAP_FAILED || mapped == arena.base) _exit(2);
    auto* seen = reinterpret_cast<int*>(static_cast<std::byte*>(mapped) + offset);
    if (seen[7] != 41) _exit(3);
    seen[7] = 42;
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(memory[7], 42);
  EXPECT_OK(aclrtFree(memory));
}

TEST_F(MemoryTest, OffsetsAreOfWholeAllocationsOnly) {
  auto* memory = static_cast<char*>(Allocate(1000));
  EXPECT_EQ(memory, reinterpret_cast<char*>(DeviceArena(0).base) + ArenaOffset(0, memory, 1000));
  EXPECT_EQ(ArenaOffset(0, memory + 10, 100), ArenaOffset(0, memory, 1) + 10);
  EXPECT_EQ(ArenaOffset(0, memory, 4000), SIZE_MAX);
  EXPECT_EQ(ArenaOffset(1, memory, 10), SIZE_MAX);
  EXPECT_EQ(ArenaOffset(0, &memory, 1), SIZE_MAX);
  EXPECT_EQ(ArenaOffset(99, memory, 1), SIZE_MAX);
  EXPECT_EQ(DeviceArena(99).base, nullptr);
  EXPECT_OK(aclrtFree(memory));
  EXPECT_EQ(ArenaOffset(0, memory, 10), SIZE_MAX);
}

TEST_F(MemoryTest, ChargesCountAgainstTheCapacity) {
  ASSERT_OK(ChargeMemory(0, 200 * kMegabyte));
  EXPECT_EQ(Free(), kCapacity - 200 * kMegabyte);
  EXPECT_REFUSED(ChargeMemory(0, 100 * kMegabyte), ACL_ERROR_RT_MEMORY_ALLOCATION, "out of memory");
  void* memory = nullptr;
  EXPECT_EQ(aclrtMalloc(&memory, 100 * kMegabyte, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_MEMORY_ALLOCATION);
  ReleaseMemory(0, 200 * kMegabyte);
  EXPECT_EQ(Free(), kCapacity);
  EXPECT_REFUSED(ChargeMemory(99, 1), ACL_ERROR_RT_INVALID_DEVICEID, "no device 99");
}

}  // namespace
}  // namespace twin
