# ascendc_library for builds without AscendC kernels: launch functions that return "not supported", so that
# the operators' host sides compile. No operator chooses a kernel in such a build (ops/kernel_place.cc).
function(ascendc_library target kind)
  set(launches "${PROJECT_BINARY_DIR}/no_kernels")
  foreach(source IN LISTS ARGN)
    file(STRINGS "${source}" lines REGEX "__global__")
    foreach(line IN LISTS lines)
      if(NOT line MATCHES "void +([A-Za-z_0-9]+) *\\(")
        continue()
      endif()
      set(kernel "${CMAKE_MATCH_1}")
      file(CONFIGURE OUTPUT "${launches}/aclrtlaunch_${kernel}.h" CONTENT
"// Generated: this build has no kernel ${kernel}.
#pragma once
#include <stdint.h>
#ifndef ACLRT_LAUNCH_KERNEL
#define ACLRT_LAUNCH_KERNEL(kernel) aclrtlaunch_##kernel
#endif
template <typename... Arguments>
uint32_t aclrtlaunch_${kernel}(uint32_t, void*, Arguments...) {
  return 207000;  // ACL_ERROR_RT_FEATURE_NOT_SUPPORT
}
" @ONLY)
    endforeach()
  endforeach()
  add_library(${target} INTERFACE)
  target_include_directories(${target} INTERFACE "${launches}")
endfunction()

function(ascendc_include_directories)
endfunction()
