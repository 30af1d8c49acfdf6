# What `cmake --install build` installs, by components. The tree holds no absolute path and can be moved: libraries are found from
# the file that needs them. torch is expected beside the tree, as in a Python environment: site-packages/trireme, site-packages/torch.
#   Program   bin/trireme, lib/: the provider's libraries (of the twin only), kernels, modules that the program opens
#   Python    the files of the Python package around it (scripts/package wheel); only by name
if(NOT TRIREME_TORCH)
  return()
endif()
set(own_libraries)
set(folders "${PROJECT_SOURCE_DIR}")  # that this configuration has: the twin's only with the twin
while(folders)
  list(POP_FRONT folders folder)
  get_property(left_out DIRECTORY "${folder}" PROPERTY EXCLUDE_FROM_ALL)
  if(left_out)  # CUDA's provider, built for its test beside the twin, has libraries of the same names
    continue()
  endif()
  get_property(below DIRECTORY "${folder}" PROPERTY SUBDIRECTORIES)
  list(APPEND folders ${below})
  get_property(targets DIRECTORY "${folder}" PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    get_target_property(left_out ${target} EXCLUDE_FROM_ALL)
    if(type MATCHES "^(SHARED|MODULE)_LIBRARY$" AND NOT left_out)
      list(APPEND own_libraries ${target})
    endif()
  endforeach()
endwhile()
if(TRIREME_CANN STREQUAL "cuda")  # where pip's packages of CUDA's libraries are, beside torch
  foreach(folder cu13 cuda_runtime nccl)
    string(APPEND beside_torch ":$ORIGIN/../../nvidia/${folder}/lib")
  endforeach()
endif()
set_target_properties(trireme PROPERTIES INSTALL_RPATH "$ORIGIN/../lib:$ORIGIN/../../torch/lib${beside_torch}")
# Those that use what the program has loaded have no path, here or there. Where CMake builds without one, it would keep room
# for the installed path as a row of colons, and each of those means the current folder.
foreach(target IN LISTS own_libraries)
  get_target_property(without ${target} SKIP_BUILD_RPATH)
  if(without)
    list(APPEND pathless ${target})
  endif()
endforeach()
set(libraries_with_path ${own_libraries})
list(REMOVE_ITEM libraries_with_path ${pathless} "")
set_target_properties(${libraries_with_path} PROPERTIES INSTALL_RPATH "$ORIGIN:$ORIGIN/../../torch/lib:$ORIGIN/../../pyarrow${beside_torch}")
# A path of the build leaves its traces in what is installed, although it is replaced: the room for its letters, and a build id that
# counts them. With this the same commit gives the same bytes in every folder; what is built then runs only once it is installed.
option(TRIREME_INSTALL_RPATH "link with the paths of an installation, for packages" OFF)
if(TRIREME_INSTALL_RPATH)
  set_target_properties(trireme ${libraries_with_path} PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
endif()
install(TARGETS trireme RUNTIME DESTINATION bin COMPONENT Program)
install(TARGETS ${own_libraries} LIBRARY DESTINATION lib COMPONENT Program)
install(FILES LICENSE DESTINATION share/doc/trireme COMPONENT Program)

set(python_part COMPONENT Python EXCLUDE_FROM_ALL)
install(DIRECTORY python/trireme/ DESTINATION . ${python_part} FILES_MATCHING PATTERN "*.py" PATTERN "py.typed")
install(PROGRAMS scripts/quickstart scripts/run.sh scripts/run_multinode.sh DESTINATION scripts ${python_part})
install(PROGRAMS scripts/lib/bind_cores scripts/lib/count_answers scripts/lib/explain_mpirun scripts/lib/rank_table scripts/lib/same_losses scripts/lib/start_agent
  scripts/lib/win_rate scripts/lib/launch.sh scripts/lib/mpi.sh DESTINATION scripts/lib ${python_part})
install(DIRECTORY examples/weekdays DESTINATION examples ${python_part})
