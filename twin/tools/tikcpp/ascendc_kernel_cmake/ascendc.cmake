# ascendc_library(target STATIC|SHARED kernel.cpp…), as in CANN's file of the same name: compiles AscendC kernels and
# generates aclrtlaunch_<kernel>.h with the functions that launch them. A CMakeLists that includes it through
# ASCEND_CANN_PACKAGE_PATH builds unchanged with CANN, and with the twin where that path is the twin's folder.
#
# Each kernel is compiled twice, into separate libraries so that their symbols cannot clash: fast, and checked, which
# the launch functions choose where TWIN_CHECKED=1 is set. Kernels are found by their declaration,
# `extern "C" __global__ __aicore__ void name(arguments)`, in the source text and in the preprocessor's output: macros
# of the file and of headers it includes by relative path are expanded. Arguments are GM_ADDR, addresses, numbers and
# structs by value.
get_filename_component(TWIN_ROOT "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET twin_ascendc)  # a separate project: use the prebuilt libraries
  set(TWIN_LIBRARIES "${TWIN_ROOT}/../build/twin/lib" CACHE PATH "where the twin's libraries are")
  foreach(name ascendcl twin_ascendc)
    add_library(${name} SHARED IMPORTED GLOBAL)
    set_target_properties(${name} PROPERTIES IMPORTED_LOCATION "${TWIN_LIBRARIES}/lib${name}.so"
      INTERFACE_INCLUDE_DIRECTORIES "${TWIN_ROOT}/include;${TWIN_ROOT}/ascendc/include")
  endforeach()
endif()

# What one kernel's launch function needs of its arguments: as declared for callers (addresses as void*, structs by
# address), as forwarded, as declared where the kernel is known, as passed to it, and the structs' names.
function(twin_kernel_arguments kernel text)
  foreach(list declared passed inner unpacked structs overload by_address)
    set(${list} "")
  endforeach()
  set(plain "^(const )?(bool|char|float|double|(unsigned |signed )?(char|short|int|long|long long)|unsigned|signed|u?int(8|16|32|64)_t|s?size_t|u?intptr_t|ptrdiff_t)$")
  string(REGEX REPLACE "^\\((.*)\\)$" "\\1" text "${text}")
  string(REGEX REPLACE "[ \t\r\n]+" " " text "${text}")
  string(REPLACE "," ";" text "${text}")
  foreach(argument IN LISTS text)
    string(STRIP "${argument}" argument)
    string(REPLACE "__gm__ " "" argument "${argument}")
    if(argument MATCHES "[<>&=\\[]" OR NOT argument MATCHES "^(.*[^A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]*)$")
      message(FATAL_ERROR "ascendc_library: cannot read the argument '${argument}' of kernel ${kernel}; wanted a type and a name: GM_ADDR, an address, a number, or a struct by value")
    endif()
    set(name "${CMAKE_MATCH_2}")
    string(STRIP "${CMAKE_MATCH_1}" of)
    if(of STREQUAL "GM_ADDR" OR of MATCHES "\\*$")
      string(REPLACE "GM_ADDR" "uint8_t*" address "${of}")
      string(APPEND declared ", void* ${name}")
      string(APPEND overload ", void* ${name}")
      string(APPEND inner ", void* ${name}")
      string(APPEND unpacked ", static_cast<${address}>(${name})")
      string(APPEND by_address ", ${name}")
    elseif(of MATCHES "${plain}")
      string(APPEND declared ", ${of} ${name}")
      string(APPEND overload ", ${of} ${name}")
      string(APPEND inner ", ${of} ${name}")
      string(APPEND unpacked ", ${name}")
      string(APPEND by_address ", ${name}")
    else()
      string(REGEX REPLACE "^(const |struct )+" "" of "${of}")
      string(APPEND declared ", const ${of}* ${name}")
      string(APPEND overload ", const ${of}& ${name}")
      string(APPEND inner ", const void* ${name}")
      string(APPEND unpacked ", *static_cast<const ${of}*>(${name})")
      string(APPEND by_address ", &${name}")
      list(APPEND structs "${of}")
    endif()
    string(APPEND passed ", ${name}")
  endforeach()
  foreach(list declared passed inner unpacked structs overload by_address)
    set(${list} "${${list}}" PARENT_SCOPE)
  endforeach()
endfunction()

# Writes aclrtlaunch_<kernel>.h and .cc. A struct is only declared; the caller includes its definition and passes it
# by address or by value. Names that begin with twin_ are reserved: a kernel's arguments may be called blockDim or
# stream.
function(twin_write_launch_function directory kernel)
  set(forward "")
  foreach(struct IN LISTS structs)
    string(REGEX REPLACE "::[^:]*$" "" namespace "${struct}")
    string(REGEX REPLACE "^.*::" "" name "${struct}")
    if(namespace STREQUAL struct)
      string(APPEND forward "struct ${name}\;\n")
    else()
      string(APPEND forward "namespace ${namespace} { struct ${name}\; }\n")
    endif()
  endforeach()
  string(REPLACE "\\;" ";" forward "${forward}")
  set(by_value "")
  if(structs)
    set(by_value "inline uint32_t aclrtlaunch_${kernel}(uint32_t twin_blocks, void* twin_stream${overload}) {
  return aclrtlaunch_${kernel}(twin_blocks, twin_stream${by_address});
}
")
  endif()
  file(CONFIGURE OUTPUT "${directory}/aclrtlaunch_${kernel}.h" CONTENT
"// Generated: launches the kernel ${kernel}.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#ifndef ACLRT_LAUNCH_KERNEL
#define ACLRT_LAUNCH_KERNEL(kernel) aclrtlaunch_##kernel
#endif
${forward}extern \"C\" uint32_t aclrtlaunch_${kernel}(uint32_t twin_blocks, void* twin_stream${declared});
${by_value}" @ONLY)
  file(CONFIGURE OUTPUT "${directory}/aclrtlaunch_${kernel}.cc" CONTENT
"// Generated: launches the kernel ${kernel}. Its fast build knows what the arguments are.
#include \"aclrtlaunch_${kernel}.h\"
#include \"twin/launch.h\"
extern \"C\" void twin_checked_${kernel}(uint32_t, uint32_t, const void*);
extern \"C\" uint32_t twin_launch_${kernel}(TwinKernelBody, uint32_t, void*${inner});
uint32_t aclrtlaunch_${kernel}(uint32_t twin_blocks, void* twin_stream${declared}) {
  return twin_launch_${kernel}(twin_checked_${kernel}, twin_blocks, twin_stream${passed});
}
" @ONLY)
endfunction()

# A source as text, with headers beside it inlined and all other includes removed.
function(twin_read_source path result)
  set(text "")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${path}")
  get_filename_component(folder "${path}" DIRECTORY)
  file(READ "${path}" rest)
  string(REPLACE ";" "\\;" rest "${rest}")
  while(rest MATCHES "(^|\n)[ \t]*#[ \t]*include[ \t]*([<\"])([^>\"\n]*)[>\"]")
    set(line "${CMAKE_MATCH_0}")
    set(kind "${CMAKE_MATCH_2}")
    # One spelling for each file: ninja takes ../../a.h and ../a.h of two folders for two.
    get_filename_component(header "${folder}/${CMAKE_MATCH_3}" ABSOLUTE)
    string(FIND "${rest}" "${line}" at)
    string(LENGTH "${line}" length)
    string(SUBSTRING "${rest}" 0 ${at} before)
    math(EXPR at "${at} + ${length}")
    string(SUBSTRING "${rest}" ${at} -1 rest)
    string(APPEND text "${before}\n")
    if(kind STREQUAL "\"" AND EXISTS "${header}" AND NOT header IN_LIST TWIN_HEADERS_READ)
      list(APPEND TWIN_HEADERS_READ "${header}")
      twin_read_source("${header}" inside)
      string(APPEND text "${inside}\n")
    endif()
  endwhile()
  string(APPEND text "${rest}")
  set(TWIN_HEADERS_READ "${TWIN_HEADERS_READ}" PARENT_SCOPE)
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

# The source with its macros expanded; unchanged where there is no compiler to run, or it fails.
function(twin_preprocess path result)
  set(TWIN_HEADERS_READ "")
  twin_read_source("${path}" text)
  set(${result} "" PARENT_SCOPE)
  if(NOT CMAKE_CXX_COMPILER)
    return()
  endif()
  string(REPLACE "\\;" ";" text "${text}")
  set(copy "${CMAKE_CURRENT_BINARY_DIR}/twin_kernels.ii.cc")
  file(WRITE "${copy}" "${text}")
  execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -E -P -x c++ -DASCENDC_CPU_DEBUG=1 -D__CCE_KT_TEST__=1
    -D__CCE_AICORE__=220 -D__NPU_ARCH__=2201 "${copy}" RESULT_VARIABLE failed OUTPUT_VARIABLE text ERROR_QUIET)
  file(REMOVE "${copy}")
  if(failed EQUAL 0)
    set(${result} "${text}" PARENT_SCOPE)
  endif()
endfunction()

# The kernels in a text, in `found`: a name, its arguments in parentheses, the next name, and so on.
function(twin_kernels_in text found)
  set(gap "[ \t\r\n]+")
  set(word "[A-Za-z_0-9]+")
  set(marked "__global__${gap}(__${word}__(\\([^)]*\\))?${gap})+")
  string(REGEX MATCHALL "${marked}void${gap}${word}[ \t\r\n]*\\([^)]*\\)" kernels "${text}")
  set(pairs "")
  foreach(kernel IN LISTS kernels)
    string(REGEX MATCH "void${gap}(${word})[ \t\r\n]*\\(([^)]*)\\)" ignored "${kernel}")
    if(NOT CMAKE_MATCH_1 IN_LIST pairs)
      list(APPEND pairs "${CMAKE_MATCH_1}" "(${CMAKE_MATCH_2})")
    endif()
  endforeach()
  set(${found} "${pairs}" PARENT_SCOPE)
endfunction()

# The kernels of a file in `found`, likewise: those in the preprocessor's output, then those only in the text.
function(twin_find_kernels source path found)
  file(READ "${path}" text)
  string(REGEX REPLACE "//[^\n]*" "" text "${text}")
  string(REGEX REPLACE "/\\*([^*]|\\*+[^*/])*\\*+/" "" text "${text}")
  set(gap "[ \t\r\n]+")
  set(word "[A-Za-z_0-9]+")
  set(marked "__global__${gap}(__${word}__(\\([^)]*\\))?${gap})+")
  if(text MATCHES "template[ \t]*<[^;{}]*>${gap}${marked}void${gap}(${word})")
    message(FATAL_ERROR "ascendc_library: ${source}: kernel ${CMAKE_MATCH_3} is a template, for which there is no launch function; write one kernel for each type, extern \"C\" __global__ __aicore__ void ${CMAKE_MATCH_3}_float(…), and let them call a common template that is not a kernel")
  endif()
  if(text MATCHES "<<<" AND NOT text MATCHES "ASCENDC_CPU_DEBUG|__CCE_KT_TEST__")
    message(FATAL_ERROR "ascendc_library: ${source} launches by <<<…>>>, which a host compiler cannot read; write ACLRT_LAUNCH_KERNEL(kernel)(blocks, stream, arguments…) in the program, or put the launch between #ifndef ASCENDC_CPU_DEBUG and #endif")
  endif()
  twin_preprocess("${path}" expanded)
  twin_kernels_in("${expanded}" pairs)
  # The text of a macro definition is not a kernel.
  string(REGEX REPLACE "\\\\[ \t\r]*\n" " " text "${text}")
  string(REGEX REPLACE "(^|\n)[ \t]*#[^\n]*" "\n" text "${text}")
  twin_kernels_in("${text}" plain)
  while(plain)
    list(POP_FRONT plain kernel arguments)
    if(NOT kernel IN_LIST pairs)
      list(APPEND pairs "${kernel}" "${arguments}")
    endif()
  endwhile()
  if(NOT pairs)
    message(FATAL_ERROR "ascendc_library: ${source} has no kernel; wanted extern \"C\" __global__ __aicore__ void name(…)")
  endif()
  set(${found} "${pairs}" PARENT_SCOPE)
endfunction()

# Names of C's mathematical functions, which a device's compiler does not know: a kernel of such a name gets another symbol,
# once the headers that declare the function have been read.
function(twin_rename_kernel kernel result)
  set(functions acos|acosh|asin|asinh|atan|atan2|atanh|cbrt|ceil|copysign|cos|cosh|erf|erfc|exp|exp2|expm1|fabs|fdim|floor|fma|fmax|fmin|fmod|frexp|hypot|ldexp|lgamma|log|log10|log1p|log2|logb|modf|nan|pow|remainder|rint|round|sin|sinh|sqrt|tan|tanh|tgamma|trunc|abs|div|y0|y1|j0|j1)
  set(${result} "" PARENT_SCOPE)
  if(kernel MATCHES "^(${functions})$")
    set(${result} "#define ${kernel} twin_kernel_${kernel}\n" PARENT_SCOPE)
  endif()
endfunction()

function(ascendc_library target type)
  set(directory "${CMAKE_CURRENT_BINARY_DIR}/${target}_launch")
  set(stubs)
  set(exported "extern \"C\" __attribute__((visibility(\"default\")))")
  foreach(source IN LISTS ARGN)
    get_filename_component(path "${source}" ABSOLUTE)
    get_filename_component(file "${source}" NAME_WE)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${path}")
    twin_find_kernels("${source}" "${path}" found)
    set(entries "")
    set(entries_fast "")
    set(entries_checked "")
    while(found)
      list(POP_FRONT found kernel arguments)
      twin_rename_kernel(${kernel} renamed)
      string(APPEND entries "${renamed}")
      twin_kernel_arguments(${kernel} "${arguments}")
      twin_write_launch_function("${directory}" ${kernel})
      list(APPEND stubs "${directory}/aclrtlaunch_${kernel}.cc")
      foreach(build fast checked)
        string(COMPARE EQUAL ${build} checked is_checked)
        string(APPEND entries_${build} "${exported} void twin_${build}_${kernel}(uint32_t block, uint32_t blocks, const void* args) {\n"
          "  twin::ascendc::RunBlock<&::${kernel}, ${is_checked}>(\"${kernel}\", block, blocks, args);\n}\n")
      endforeach()
      string(APPEND entries_fast "${exported} uint32_t twin_launch_${kernel}(TwinKernelBody twin_checked, uint32_t twin_blocks, void* twin_stream${inner}) {\n"
        "  return twin::ascendc::LaunchLike(&::${kernel}, {\"${kernel}\", twin_fast_${kernel}, twin_checked}, twin_blocks, twin_stream${unpacked});\n}\n")
    endwhile()
    if(entries)
      set(entries "#include <cmath>\n#include \"kernel_operator.h\"\n#include \"ascendc/launch.h\"\n${entries}")
    endif()
    set(entries "// Generated: the blocks of the kernels of ${file}.\n${entries}#include \"${path}\"\n#include \"ascendc/launch.h\"\n")
    foreach(build fast checked)
      file(CONFIGURE OUTPUT "${directory}/${file}_${build}.cc" CONTENT "${entries}${entries_${build}}" @ONLY)
      list(APPEND sources_${build} "${directory}/${file}_${build}.cc")
    endforeach()
  endforeach()
  foreach(build fast checked)
    add_library(${target}_${build} SHARED ${sources_${build}})
    target_link_libraries(${target}_${build} PRIVATE twin_ascendc ascendcl)
    target_compile_definitions(${target}_${build} PRIVATE ASCENDC_CPU_DEBUG=1 __CCE_KT_TEST__=1)
    set_target_properties(${target}_${build} PROPERTIES CXX_STANDARD 20 CXX_VISIBILITY_PRESET hidden
      VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON)
  endforeach()
  target_compile_options(${target}_fast PRIVATE -O2)
  # Its messages name a kernel's file, but no folder of this machine: any clone makes the same bytes.
  target_compile_options(${target}_checked PRIVATE -O1 "-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.")
  target_compile_definitions(${target}_checked PRIVATE TWIN_ASCENDC_CHECKED)
  add_library(${target} ${type} ${stubs})
  set_target_properties(${target} PROPERTIES CXX_STANDARD 20 POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${target} PUBLIC "${directory}")
  target_link_libraries(${target} PUBLIC ascendcl PRIVATE twin_ascendc ${target}_fast ${target}_checked)
endfunction()

# CANN's helpers for options, definitions and include paths of kernels. One device compiler option has a meaning here:
# --cce-auto-sync=off makes the checked build require the flags and barriers that the compiler would insert. Options
# that the host compiler knows are passed on.
function(ascendc_compile_options target)
  cmake_parse_arguments(A "" "" "PRIVATE;PUBLIC;INTERFACE" ${ARGN})
  foreach(option IN LISTS A_PRIVATE A_PUBLIC A_UNPARSED_ARGUMENTS)
    foreach(build fast checked)
      if(option STREQUAL "--cce-auto-sync=off")
        target_compile_definitions(${target}_${build} PRIVATE TWIN_ASCENDC_NO_AUTO_SYNC)
      elseif(NOT option MATCHES "^--?(cce|bisheng|npu|asc)")
        target_compile_options(${target}_${build} PRIVATE "${option}")
      else()
        message(STATUS "ascendc_compile_options: ${option} is an option of the device compiler; ignored")
      endif()
    endforeach()
  endforeach()
endfunction()
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
