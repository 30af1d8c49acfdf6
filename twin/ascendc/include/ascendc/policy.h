// The one difference between the two builds: what accompanies each call. Nothing in the fast build; the
// checked build notifies the core's checker.
#pragma once

#include "ascendc/checker.h"
#include "ascendc/where.h"

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {
namespace policy {

#ifdef TWIN_ASCENDC_CHECKED
constexpr bool kChecked = true;
inline twin::ascendc::Place At(const char* function, Where where) {
  return {function, where.file, where.line, where.call};
}
#define TWIN_TELL(call) twin::ascendc::ThisCore().checker->call
inline void Waits(Where where) {
  twin::ascendc::Core& core = twin::ascendc::ThisCore();
  core.waiting_file = where.file, core.waiting_line = where.line;
}
[[noreturn]] inline void Fail(const char* function, const std::string& text, Where where) {
  twin::ascendc::Fail(function, text, where.file, where.line);
}
#else
constexpr bool kChecked = false;
inline twin::ascendc::Place At(const char* function, Where) { return {function, nullptr, 0}; }
inline void Waits(Where) {}
#define TWIN_TELL(call) \
  if constexpr (false) twin::ascendc::ThisCore().checker->call
[[noreturn]] inline void Fail(const char* function, const std::string& text, Where) {
  twin::ascendc::Fail(function, text, nullptr, 0);
}
#endif

inline void Reads(pipe_t pipe, const void* begin, uint64_t bytes, const char* function, Where where) {
  TWIN_TELL(Read(pipe, begin, bytes, At(function, where)));
}
inline void Writes(pipe_t pipe, const void* begin, uint64_t bytes, const char* function, Where where) {
  TWIN_TELL(Write(pipe, begin, bytes, At(function, where)));
}
inline void Forgets(const void* begin, uint64_t bytes) { TWIN_TELL(Forget(begin, bytes)); }
inline void Aligned(const void* address, uint64_t alignment, const char* function, Where where) {
  TWIN_TELL(Aligned(address, alignment, At(function, where)));
}

// A precondition on arguments that the fast build assumes.
inline void Wants(bool holds, const char* rule, const char* function, Where where) {
  if constexpr (kChecked) {
    if (!holds) Fail(function, rule, where);
  }
}

// A vector function's operand: n elements starting at a 32-byte boundary.
template <typename Tensor>
void VectorIn(const Tensor& tensor, uint64_t n, const char* function, Where where) {
  Aligned(tensor.data(), 32, function, where);
  Reads(PIPE_V, tensor.data(), BytesOf<typename Tensor::PrimType>(n), function, where);
}
template <typename Tensor>
void VectorOut(const Tensor& tensor, uint64_t n, const char* function, Where where) {
  Aligned(tensor.data(), 32, function, where);
  Writes(PIPE_V, tensor.data(), BytesOf<typename Tensor::PrimType>(n), function, where);
}

}  // namespace policy
}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
