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
set(TRIREME_SANITIZED "" CACHE STRING "folders whose code the sanitizer checks; empty: all. With libtorch, whose threads it cannot see")

# One object directory per sanitizer preset, so a flag here never leaks into a release.
if(TRIREME_SANITIZER)
  # -O1 -g1: half the compile time of -O2 -g, and reports still name file and line.
  set(sanitizer_options -fsanitize=${TRIREME_SANITIZER} -fno-omit-frame-pointer -O1 -g1)
  add_link_options(-fsanitize=${TRIREME_SANITIZER})
  if(TRIREME_SANITIZER STREQUAL "address")
    list(APPEND sanitizer_options -fsanitize=undefined -fno-sanitize-recover=undefined)
    add_link_options(-fsanitize=undefined)
  endif()
  if(NOT TRIREME_SANITIZED)
    add_compile_options(${sanitizer_options})
  endif()
endif()

# Where only some folders are checked: the libraries of those. The others are compiled as for a release.
function(trireme_sanitize_folders)
  foreach(folder IN LISTS TRIREME_SANITIZED)
    get_property(targets DIRECTORY "${PROJECT_SOURCE_DIR}/${folder}" PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target IN LISTS targets)
      get_target_property(type ${target} TYPE)
      if(type MATCHES "^(STATIC|OBJECT|SHARED)_LIBRARY$")
        target_compile_options(${target} PRIVATE ${sanitizer_options})
      endif()
    endforeach()
  endforeach()
endfunction()

# For a folder whose code decides, parses or tests, and leaves the computing to others: compiled in a third less time, and as
# fast where it counts. Folders that compute (ops, core, data, text, images, checkpoint, generation, parallel) keep -O3.
macro(trireme_compile_quickly)
  add_compile_options("$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>")
endmacro()

add_compile_options(-Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -Werror=return-type -Werror=unused-result)
# gcc 12 reports these inside the standard library at -O3, wrongly.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized;-Wno-restrict>")

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
endif()
