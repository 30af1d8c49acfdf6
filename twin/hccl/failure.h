// Error reporting: an exception internally, an HcclResult and a recent-error message at the C interface.
#pragma once

#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "hccl/hccl.h"
#include "twin/acl/internal.h"

namespace twin {

class HcclFailure : public std::runtime_error {
 public:
  HcclFailure(HcclResult code, const std::string& text) : std::runtime_error(text), code_(code) {}
  HcclResult code() const { return code_; }

 private:
  HcclResult code_;
};

// Runs the body of one interface function and converts an exception into its return value.
template <typename Body>
HcclResult Answer(const char* function, Body&& body) noexcept {
  const auto report = [function](HcclResult code, const std::string& text) {
    SetRecentError(std::string(function) + ": " + text);
    return code;
  };
  try {
    std::forward<Body>(body)();
    return HCCL_SUCCESS;
  } catch (const HcclFailure& failure) {
    return report(failure.code(), failure.what());
  } catch (const std::bad_alloc&) {
    return report(HCCL_E_MEMORY, "the host is out of memory");
  } catch (const std::exception& failure) {
    return report(HCCL_E_INTERNAL, failure.what());
  }
}

// For pointers that the caller must provide.
inline void NeedPointer(const void* pointer, const char* argument) {
  if (pointer == nullptr) throw HcclFailure(HCCL_E_PTR, std::string(argument) + " is a null pointer");
}

}  // namespace twin
