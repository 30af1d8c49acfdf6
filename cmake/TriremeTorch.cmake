# trireme_use_torch(target): link libtorch and share one precompiled header of it, which cuts a file with torch
# headers from about 18 s to about 5 s. The header is compiled once, in the target trireme_torch_pch.
# at::parallel_for is a template in torch's headers, which uses threads only if OpenMP is enabled.
find_package(OpenMP REQUIRED COMPONENTS CXX)

function(trireme_use_torch target)
  target_link_libraries(${target} PUBLIC Libtorch::cpu OpenMP::OpenMP_CXX)
  target_precompile_headers(${target} REUSE_FROM trireme_torch_pch)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    trireme_compile_as_library(${target})
  endif()
endfunction()

file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/torch_pch.cc CONTENT "// The precompiled torch header needs one source file to belong to.\n")
add_library(trireme_torch_pch OBJECT ${PROJECT_BINARY_DIR}/torch_pch.cc)
target_link_libraries(trireme_torch_pch PUBLIC Libtorch::cpu OpenMP::OpenMP_CXX)
target_precompile_headers(trireme_torch_pch PRIVATE <ATen/ATen.h> <torch/csrc/autograd/custom_function.h>)
