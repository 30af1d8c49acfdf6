# Language, warnings, sanitizers, ccache, and the choice of provider for ACL and HCCL: Huawei's CANN, the twin, or CUDA.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

if(DEFINED ENV{ASCEND_HOME_PATH})
  set(cann_default ascend)
else()
  set(cann_default twin)
endif()
if(DEFINED ENV{TRIREME_CANN})
  set(cann_default $ENV{TRIREME_CANN})
endif()
set(TRIREME_CANN ${cann_default} CACHE STRING "twin (runs anywhere), ascend (Huawei's CANN at ASCEND_HOME_PATH) or cuda (NVIDIA GPUs)")
if(NOT TRIREME_CANN MATCHES "^(twin|ascend|cuda)$")
  message(FATAL_ERROR "TRIREME_CANN is '${TRIREME_CANN}'; set twin, ascend or cuda")
endif()
option(TRIREME_TORCH "Build what needs libtorch; off in sanitizer builds, which cover the torch-free parts" ON)
set(TRIREME_SANITIZER "" CACHE STRING "address, thread, or empty")

# One object directory per sanitizer preset, so a flag here never leaks into a release.
if(TRIREME_SANITIZER)
  # -O1 -g1: half the compile time of -O2 -g, and reports still name file and line.
  add_compile_options(-fsanitize=${TRIREME_SANITIZER} -fno-omit-frame-pointer -O1 -g1)
  add_link_options(-fsanitize=${TRIREME_SANITIZER})
  if(TRIREME_SANITIZER STREQUAL "address")
    add_compile_options(-fsanitize=undefined -fno-sanitize-recover=undefined)
    add_link_options(-fsanitize=undefined)
  endif()
endif()

add_compile_options(-Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -Werror=return-type -Werror=unused-result)
# gcc 12 reports these inside the standard library at -O3, wrongly.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized;-Wno-restrict>")

# Several sources of a library are compiled as one, which parses their headers once: half the compile time. They share
# their anonymous namespaces, so names in those must be unique within a library. Off, every file shows that it includes
# what it uses.
option(TRIREME_UNITY "Compile the sources of a library in groups" ON)
set(CMAKE_UNITY_BUILD ${TRIREME_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 10)
# A list that a program may replace by its own stays an object of its own: the linker then leaves out the library's.
function(trireme_replaceable)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
endif()
