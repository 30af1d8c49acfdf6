// Guarded memory for the conformance tests; see conformance_buffer.h. A failing allocation or copy ends the
// test program: no rank could continue alone.
#include "tests/twin/hccl/conformance_buffer.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "acl/acl.h"

namespace conformance {
namespace {

void Need(aclError code, const char* call) {
  if (code == ACL_SUCCESS) return;
  std::fprintf(stderr, "%s failed with %d: %s\n", call, code, aclGetRecentErrMsg());
  std::abort();
}

}  // namespace

Buffer::Buffer(Memory memory, const Bytes& content) : memory_(memory), bytes_(content.size()) {
  Bytes whole(bytes_ + 2 * kGuard, kMark);
  std::copy(content.begin(), content.end(), whole.begin() + kGuard);
  if (memory == Memory::kHost) {
    block_ = static_cast<uint8_t*>(std::malloc(whole.size()));
    std::memcpy(block_, whole.data(), whole.size());
    return;
  }
  void* block = nullptr;
  Need(aclrtMalloc(&block, whole.size(), ACL_MEM_MALLOC_NORMAL_ONLY), "aclrtMalloc");
  block_ = static_cast<uint8_t*>(block);
  Need(aclrtMemcpy(block_, whole.size(), whole.data(), whole.size(), ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy");
}

Buffer::~Buffer() {
  if (memory_ == Memory::kHost) {
    std::free(block_);
  } else {
    aclrtFree(block_);
  }
}

Bytes Buffer::Read() const {
  Bytes whole(bytes_ + 2 * kGuard);
  if (memory_ == Memory::kHost) {
    std::memcpy(whole.data(), block_, whole.size());
  } else {
    Need(aclrtMemcpy(whole.data(), whole.size(), block_, whole.size(), ACL_MEMCPY_DEVICE_TO_HOST), "aclrtMemcpy");
  }
  const auto marked = [](uint8_t b) { return b == kMark; };
  guards_intact_ = std::all_of(whole.begin(), whole.begin() + kGuard, marked) &&
                   std::all_of(whole.end() - kGuard, whole.end(), marked);
  return Bytes(whole.begin() + kGuard, whole.end() - kGuard);
}

bool Buffer::guards_intact() const { return guards_intact_; }

}  // namespace conformance
