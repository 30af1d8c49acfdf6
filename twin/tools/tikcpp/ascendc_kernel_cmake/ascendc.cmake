# ascendc_library(target STATIC|SHARED kernel.cpp…), as CANN's own file of this name has it: compiles AscendC kernels
# and generates aclrtlaunch_<kernel>.h with the functions that launch them. A CMakeLists that includes it by way of
# ASCEND_CANN_PACKAGE_PATH builds unchanged with CANN, and with the twin where that path is the twin's folder.
#
# Each kernel is compiled twice, into libraries of their own so that no name of one meets the other's: fast, and
# checked, which the launch functions choose where TWIN_CHECKED=1 is set. Kernels are found by their words,
# `extern "C" __global__ __aicore__ void name(arguments)`; arguments are GM_ADDR and plain numbers.
get_filename_component(TWIN_ROOT "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET twin_ascendc)  # a project of its own: the libraries as they were built
  set(TWIN_LIBRARIES "${TWIN_ROOT}/../build/twin/lib" CACHE PATH "where the twin's libraries are")
  foreach(name ascendcl twin_ascendc)
    add_library(${name} SHARED IMPORTED GLOBAL)
    set_target_properties(${name} PROPERTIES IMPORTED_LOCATION "${TWIN_LIBRARIES}/lib${name}.so"
      INTERFACE_INCLUDE_DIRECTORIES "${TWIN_ROOT}/include;${TWIN_ROOT}/ascendc/include")
  endforeach()
endif()

# The pieces of code that one kernel needs: its launch function's arguments as declared, passed on, and as types.
function(twin_kernel_arguments text declared passed types)
  set(declare "")
  set(pass "")
  set(type "")
  string(REGEX REPLACE "[ \t\r\n]+" " " text "${text}")
  string(REPLACE "," ";" text "${text}")
  foreach(argument IN LISTS text)
    string(STRIP "${argument}" argument)
    string(REPLACE "__gm__ " "" argument "${argument}")
    if(NOT argument MATCHES "^(.*[^A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]*)$")
      message(FATAL_ERROR "ascendc_library: cannot read the kernel argument '${argument}'; wanted a type and a name")
    endif()
    set(name "${CMAKE_MATCH_2}")
    string(STRIP "${CMAKE_MATCH_1}" of)
    if(of STREQUAL "GM_ADDR")
      string(APPEND declare ", void* ${name}")
      string(APPEND pass ", static_cast<uint8_t*>(${name})")
      string(APPEND type ", uint8_t*")
    else()
      string(APPEND declare ", ${of} ${name}")
      string(APPEND pass ", ${name}")
      string(APPEND type ", ${of}")
    endif()
  endforeach()
  string(REGEX REPLACE "^, " "" type "${type}")
  set(${declared} "${declare}" PARENT_SCOPE)
  set(${passed} "${pass}" PARENT_SCOPE)
  set(${types} "${type}" PARENT_SCOPE)
endfunction()

function(twin_write_launch_function directory kernel arguments)
  twin_kernel_arguments("${arguments}" declared passed types)
  file(CONFIGURE OUTPUT "${directory}/aclrtlaunch_${kernel}.h" CONTENT
"// Generated: launches the kernel ${kernel}.
#pragma once
#include <stdint.h>
#ifndef ACLRT_LAUNCH_KERNEL
#define ACLRT_LAUNCH_KERNEL(kernel) aclrtlaunch_##kernel
#endif
extern \"C\" uint32_t aclrtlaunch_${kernel}(uint32_t blockDim, void* stream${declared});
" @ONLY)
  file(CONFIGURE OUTPUT "${directory}/aclrtlaunch_${kernel}.cc" CONTENT
"// Generated: launches the kernel ${kernel}.
#include \"aclrtlaunch_${kernel}.h\"
#include \"ascendc/launch.h\"
extern \"C\" void twin_fast_${kernel}(uint32_t, uint32_t, const void*);
extern \"C\" void twin_checked_${kernel}(uint32_t, uint32_t, const void*);
uint32_t aclrtlaunch_${kernel}(uint32_t blockDim, void* stream${declared}) {
  return twin::ascendc::Launch<${types}>({\"${kernel}\", twin_fast_${kernel}, twin_checked_${kernel}}, blockDim, stream${passed});
}
" @ONLY)
endfunction()

function(ascendc_library target type)
  set(directory "${CMAKE_CURRENT_BINARY_DIR}/${target}_launch")
  set(stubs)
  foreach(source IN LISTS ARGN)
    get_filename_component(path "${source}" ABSOLUTE)
    get_filename_component(name "${source}" NAME_WE)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${path}")
    file(READ "${path}" text)
    set(gap "[ \t\r\n]+")
    string(REGEX MATCHALL "extern${gap}\"C\"${gap}__global__${gap}__aicore__${gap}void${gap}[A-Za-z_0-9]+[ \t\r\n]*\\([^)]*\\)" found "${text}")
    if(NOT found)
      message(FATAL_ERROR "ascendc_library: ${source} has no kernel; wanted extern \"C\" __global__ __aicore__ void name(…)")
    endif()
    foreach(build fast checked)
      set(entries_${build} "// Generated: the blocks of the kernels of ${name}.\n#include \"${path}\"\n#include \"ascendc/run.h\"\n")
    endforeach()
    foreach(kernel_text IN LISTS found)
      string(REGEX MATCH "void${gap}([A-Za-z_0-9]+)[ \t\r\n]*\\(([^)]*)\\)" ignored "${kernel_text}")
      set(kernel "${CMAKE_MATCH_1}")
      twin_write_launch_function("${directory}" ${kernel} "${CMAKE_MATCH_2}")
      list(APPEND stubs "${directory}/aclrtlaunch_${kernel}.cc")
      foreach(build fast checked)
        string(COMPARE EQUAL ${build} checked is_checked)
        string(APPEND entries_${build} "extern \"C\" __attribute__((visibility(\"default\"))) void twin_${build}_${kernel}(uint32_t block, uint32_t blocks, const void* args) {\n"
          "  twin::ascendc::RunBlock<&${kernel}, ${is_checked}>(\"${kernel}\", block, blocks, args);\n}\n")
      endforeach()
    endforeach()
    foreach(build fast checked)
      file(CONFIGURE OUTPUT "${directory}/${name}_${build}.cc" CONTENT "${entries_${build}}" @ONLY)
      list(APPEND sources_${build} "${directory}/${name}_${build}.cc")
    endforeach()
  endforeach()
  foreach(build fast checked)
    add_library(${target}_${build} SHARED ${sources_${build}})
    target_link_libraries(${target}_${build} PRIVATE twin_ascendc)
    set_target_properties(${target}_${build} PROPERTIES CXX_STANDARD 20 CXX_VISIBILITY_PRESET hidden
      VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON)
  endforeach()
  target_compile_options(${target}_fast PRIVATE -O2)
  target_compile_options(${target}_checked PRIVATE -O1)
  target_compile_definitions(${target}_checked PRIVATE TWIN_ASCENDC_CHECKED)
  add_library(${target} ${type} ${stubs})
  set_target_properties(${target} PROPERTIES CXX_STANDARD 20 POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${target} PUBLIC "${directory}")
  target_link_libraries(${target} PUBLIC ascendcl PRIVATE twin_ascendc ${target}_fast ${target}_checked)
endfunction()

# CANN's helpers for definitions and include paths of kernels.
function(ascendc_compile_definitions target)
  cmake_parse_arguments(A "" "" "PRIVATE;PUBLIC;INTERFACE" ${ARGN})
  foreach(build fast checked)
    target_compile_definitions(${target}_${build} PRIVATE ${A_PRIVATE} ${A_PUBLIC})
  endforeach()
endfunction()
function(ascendc_include_directories target)
  cmake_parse_arguments(A "" "" "PRIVATE;PUBLIC;INTERFACE" ${ARGN})
  foreach(build fast checked)
    target_include_directories(${target}_${build} PRIVATE ${A_PRIVATE} ${A_PUBLIC})
  endforeach()
endfunction()
