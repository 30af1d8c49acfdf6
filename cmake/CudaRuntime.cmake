# cuda::runtime, CUDA's runtime (headers and libcudart), and cuda::torch, a torch wheel's CUDA side over it. Both are
# targets only if they are found: beside the torch wheel (pip's nvidia packages), or in a toolkit at CUDA_HOME or
# /usr/local/cuda. Must have the same major version as torch's, since both are in one process. Nothing here needs nvcc or a GPU.
set(CUDA_HOME "$ENV{CUDA_HOME}" CACHE PATH "a CUDA toolkit; empty: the packages beside torch, then /usr/local/cuda")
set(cuda_wanted "")
if(TRIREME_TORCH)
  file(STRINGS "${torch_dir}/version.py" cuda_line REGEX "^cuda[: ].*= '")
  string(REGEX MATCH "'([0-9]+)\\." ignored "${cuda_line}")
  set(cuda_wanted "${CMAKE_MATCH_1}")
endif()
get_filename_component(packages "${torch_dir}/.." ABSOLUTE)
set(places "${packages}/nvidia/cu${cuda_wanted}" "${packages}/nvidia/cuda_runtime" "${CUDA_HOME}" /usr/local/cuda)

set(cuda_missing "torch in ${torch_dir} has no CUDA")
if(cuda_wanted AND EXISTS "${torch_dir}/lib/libc10_cuda.so")
  set(cuda_missing "")
  find_path(CUDA_RUNTIME_INCLUDE cuda_runtime_api.h PATHS ${places} PATH_SUFFIXES include NO_DEFAULT_PATH)
  # Some of the runtime's headers are in the compiler's package.
  find_path(CUDA_CRT_INCLUDE crt/host_defines.h PATHS ${places} "${packages}/nvidia/cuda_nvcc" PATH_SUFFIXES include
            NO_DEFAULT_PATH)
  find_file(CUDA_RUNTIME_LIBRARY libcudart.so.${cuda_wanted} PATHS ${places} PATH_SUFFIXES lib lib64 NO_DEFAULT_PATH)
  find_path(NCCL_INCLUDE nccl.h PATHS "${packages}/nvidia/nccl" "${packages}/nvidia/cu${cuda_wanted}" /usr
            PATH_SUFFIXES include NO_DEFAULT_PATH)
  if(NOT CUDA_RUNTIME_INCLUDE OR NOT CUDA_CRT_INCLUDE OR NOT CUDA_RUNTIME_LIBRARY)
    set(cuda_missing "CUDA ${cuda_wanted}'s cuda_runtime_api.h, crt/host_defines.h or libcudart.so.${cuda_wanted} was not found in ${places}")
  endif()
endif()
if(cuda_missing)
  if(TRIREME_CANN STREQUAL "cuda")
    message(FATAL_ERROR "TRIREME_CANN=cuda, but ${cuda_missing}; run scripts/setup --cuda, or set CUDA_HOME to a toolkit")
  endif()
  return()
endif()

add_library(cuda_runtime INTERFACE)
add_library(cuda::runtime ALIAS cuda_runtime)
target_include_directories(cuda_runtime SYSTEM INTERFACE "${CUDA_RUNTIME_INCLUDE}" "${CUDA_CRT_INCLUDE}")
target_link_libraries(cuda_runtime INTERFACE "${CUDA_RUNTIME_LIBRARY}")

add_library(cuda_torch INTERFACE)
add_library(cuda::torch ALIAS cuda_torch)
# Linked although nothing references it: loading libtorch_cuda registers ATen's CUDA operators.
target_link_libraries(cuda_torch INTERFACE cuda::runtime "-Wl,--no-as-needed" "${torch_dir}/lib/libtorch_cuda.so"
  "${torch_dir}/lib/libc10_cuda.so" "-Wl,--as-needed")
# Machines that only compile lack libtorch_cuda's own dependencies.
target_link_options(cuda_torch INTERFACE "-Wl,--unresolved-symbols=ignore-in-shared-libs")
