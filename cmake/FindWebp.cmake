# libwebp as distributions package it: headers and a library, often with no CMake file of its own. Gives the target Webp::Webp.
find_path(Webp_INCLUDE_DIR webp/decode.h)
find_library(Webp_LIBRARY webp)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Webp REQUIRED_VARS Webp_LIBRARY Webp_INCLUDE_DIR)
if(Webp_FOUND AND NOT TARGET Webp::Webp)
  add_library(Webp::Webp UNKNOWN IMPORTED)
  set_target_properties(Webp::Webp PROPERTIES IMPORTED_LOCATION "${Webp_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${Webp_INCLUDE_DIR}")
endif()
