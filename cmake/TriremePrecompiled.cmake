# Headers that most sources without torch parse, parsed once: the standard library's, the JSON library's and, for tests,
# GoogleTest's, which take two seconds of each object. Objects with torch have their own (trireme_use_torch). Off where
# TRIREME_UNITY is off: then every file shows that it includes what it uses.
#   trireme_precompile(folder…)    all libraries of these folders, and below them, that do without torch
#   trireme_precompile_tests()     all programs of trireme_test that do without torch
set(standard_headers <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring> <filesystem> <fstream>
  <functional> <map> <memory> <mutex> <numeric> <optional> <set> <span> <sstream> <string> <string_view> <thread> <utility> <vector>
  <nlohmann/json.hpp>)

# CMake compiles programs with -fPIE, libraries with -fPIC; a precompiled header works only with the mode it was built in.
function(trireme_compile_as_library program)
  set_target_properties(${program} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${program} PRIVATE -fPIC)
endfunction()

# Whether a target, or what it links, links torch: its objects are then compiled with other options.
function(trireme_links_torch target result)
  get_property(known GLOBAL PROPERTY TRIREME_LINKS_TORCH_${target})
  if("${known}" STREQUAL "")
    set(known NO)
    set_property(GLOBAL PROPERTY TRIREME_LINKS_TORCH_${target} NO)  # where libraries need each other
    foreach(property LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
      get_target_property(linked ${target} ${property})
      foreach(library IN LISTS linked)
        string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" library "${library}")
        if(library MATCHES "^(Libtorch::cpu|OpenMP::OpenMP_CXX)$")
          set(known YES)
        elseif(TARGET "${library}" AND NOT known)
          trireme_links_torch(${library} known)
        endif()
      endforeach()
    endforeach()
    set_property(GLOBAL PROPERTY TRIREME_LINKS_TORCH_${target} ${known})
  endif()
  set(${result} ${known} PARENT_SCOPE)
endfunction()

function(precompiled_header name libraries)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${name}.cc CONTENT "// What the header belongs to.\n")
  add_library(${name} OBJECT ${PROJECT_BINARY_DIR}/${name}.cc)
  target_link_libraries(${name} PUBLIC ${libraries})
  target_precompile_headers(${name} PRIVATE ${ARGN})
endfunction()

# A target that has its own options besides goes without: a precompiled header belongs to one set of them.
function(reuse_header target header)
  get_target_property(own ${target} COMPILE_OPTIONS)
  get_target_property(reused ${target} PRECOMPILE_HEADERS_REUSE_FROM)
  trireme_links_torch(${target} torch)
  if(NOT torch AND NOT reused AND NOT own MATCHES "(^|;)-f")
    target_precompile_headers(${target} REUSE_FROM ${header})
  endif()
endfunction()

function(precompile_below)
  foreach(folder IN LISTS ARGN)
    get_property(targets DIRECTORY "${folder}" PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target IN LISTS targets)
      get_target_property(type ${target} TYPE)
      if(type STREQUAL "STATIC_LIBRARY")
        reuse_header(${target} trireme_standard_pch)
      endif()
    endforeach()
    get_property(below DIRECTORY "${folder}" PROPERTY SUBDIRECTORIES)
    precompile_below(${below})
  endforeach()
endfunction()

function(trireme_precompile)
  if(TRIREME_UNITY)
    precompiled_header(trireme_standard_pch nlohmann_json::nlohmann_json ${standard_headers})
    precompile_below(${ARGN})
  endif()
endfunction()

function(trireme_precompile_tests)
  if(NOT TRIREME_UNITY)
    return()
  endif()
  precompiled_header(trireme_test_pch "nlohmann_json::nlohmann_json;GTest::gtest" ${standard_headers} <gtest/gtest.h>)
  get_property(tests GLOBAL PROPERTY TRIREME_TESTS)
  foreach(test IN LISTS tests)
    reuse_header(${test} trireme_test_pch)
    get_target_property(reused ${test} PRECOMPILE_HEADERS_REUSE_FROM)
    if(reused STREQUAL "trireme_test_pch")
      trireme_compile_as_library(${test})
    endif()
  endforeach()
endfunction()
