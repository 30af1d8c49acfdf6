# find_package(Trireme): the libraries that other programs link, with their headers, installed by
# `cmake --install build --component Development`. The parts without torch: reading and writing checkpoints, tokenizers and chat
# templates, RUN.yaml, meshes. What trains is the program's alone.
set(exported base io plan packing pickle megatron checkpoint config tokenizer)

# A target's own folders, named by their place in the installed tree instead.
function(name_installed_places target)
  get_target_property(folders ${target} INTERFACE_INCLUDE_DIRECTORIES)
  set_property(TARGET ${target} PROPERTY INTERFACE_INCLUDE_DIRECTORIES "$<INSTALL_INTERFACE:include/trireme>")
  foreach(folder IN LISTS folders)
    if(folder)
      set_property(TARGET ${target} APPEND PROPERTY INTERFACE_INCLUDE_DIRECTORIES "$<BUILD_INTERFACE:${folder}>")
    endif()
  endforeach()
  get_target_property(links ${target} INTERFACE_LINK_LIBRARIES)
  string(REPLACE "${rust_archive}"
    "$<BUILD_INTERFACE:${rust_archive}>;$<INSTALL_INTERFACE:$<INSTALL_PREFIX>/lib/libtrireme_tokenizer_crate.a>" links "${links}")
  set_property(TARGET ${target} PROPERTY INTERFACE_LINK_LIBRARIES "${links}")
endfunction()

set(rust_archive "${PROJECT_BINARY_DIR}/rust/release/libtrireme_tokenizer.a")
if(TRIREME_TOKENIZER_LIBRARY)
  set(rust_archive "${TRIREME_TOKENIZER_LIBRARY}")
endif()
set(development COMPONENT Development EXCLUDE_FROM_ALL)
foreach(name IN LISTS exported)
  name_installed_places(trireme_${name})
  set_target_properties(trireme_${name} PROPERTIES EXPORT_NAME ${name} INTERFACE_COMPILE_FEATURES cxx_std_20)
  install(TARGETS trireme_${name} EXPORT TriremeTargets ARCHIVE DESTINATION lib ${development})
endforeach()
install(FILES "${rust_archive}" DESTINATION lib RENAME libtrireme_tokenizer_crate.a ${development})
install(EXPORT TriremeTargets NAMESPACE Trireme:: DESTINATION lib/cmake/Trireme ${development})
foreach(folder core checkpoint text)
  install(DIRECTORY ${folder} DESTINATION include/trireme ${development} FILES_MATCHING PATTERN "*.h")
  install(DIRECTORY "${PROJECT_BINARY_DIR}/${folder}" DESTINATION include/trireme ${development} FILES_MATCHING PATTERN "*.pb.h")
endforeach()
include(CMakePackageConfigHelpers)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/TriremeConfigVersion.cmake" COMPATIBILITY ExactVersion)
install(FILES cmake/TriremeConfig.cmake cmake/FindIsal.cmake cmake/FindRe2.cmake cmake/FindXxhash.cmake cmake/FindZstd.cmake
  "${PROJECT_BINARY_DIR}/TriremeConfigVersion.cmake" DESTINATION lib/cmake/Trireme ${development})
