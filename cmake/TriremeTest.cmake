# One function for every test:
#   trireme_test(mesh_test LABEL plan SOURCES mesh_test.cc LIBS trireme_plan)      one process, GoogleTest's main
#   trireme_test(matrix_test LABEL twin RANKS 1 2 4 SOURCES … LIBS …)              its own main, under mpirun, once per size
# Labels: plan (no torch), tensor (one process, torch), spmd (mpirun), twin (the twin's own), docs, setup.
# A test's name in ctest is its label, a dot, its name, and under mpirun a dot and the number of ranks.
# SANITIZED: also run in the address and thread sanitizer builds. ONE_THREAD: of these only in the first, for what it tests
# starts no thread, or only such as another test starts. CORPUS: under the address sanitizer by scripts/test --full alone, for
# its build takes minutes: what reads what others broke, and libraries that parse nothing of strangers.
set(TRIREME_MPIRUN ${MPIEXEC_EXECUTABLE} --allow-run-as-root --oversubscribe --bind-to none
    --mca mpi_yield_when_idle 1 --quiet)
add_custom_target(sanitized_tests)
add_custom_target(corpus_tests)

function(trireme_test name)
  cmake_parse_arguments(T "OWN_MAIN;SANITIZED;ONE_THREAD;SERIAL;CORPUS" "LABEL;TIMEOUT" "SOURCES;LIBS;RANKS;ENV" ${ARGN})
  if(NOT T_LABEL OR NOT T_SOURCES)
    message(FATAL_ERROR "trireme_test(${name}) needs LABEL and SOURCES")
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 1200)  # a hang, even where the host takes most of the time away
  endif()
  add_executable(${name} ${T_SOURCES})
  set_property(GLOBAL APPEND PROPERTY TRIREME_TESTS ${name})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${T_LIBS} GTest::gtest)
  if(NOT T_RANKS AND NOT T_OWN_MAIN)
    target_link_libraries(${name} PRIVATE GTest::gtest_main)
  endif()

  set(cases)
  if(T_RANKS)
    foreach(ranks IN LISTS T_RANKS)
      add_test(NAME ${T_LABEL}.${name}.${ranks} COMMAND ${TRIREME_MPIRUN} -n ${ranks} $<TARGET_FILE:${name}>)
      list(APPEND cases ${T_LABEL}.${name}.${ranks})
    endforeach()
  else()
    add_test(NAME ${T_LABEL}.${name} COMMAND ${name})
    set(cases ${T_LABEL}.${name})
  endif()

  set(labels ${T_LABEL})
  if(T_SANITIZED AND NOT (T_ONE_THREAD AND TRIREME_SANITIZER STREQUAL "thread"))
    list(APPEND labels sanitized)
    add_dependencies(sanitized_tests ${name})
  endif()
  if(T_CORPUS)
    list(APPEND labels corpus)
    add_dependencies(corpus_tests ${name})
  endif()
  set(environment OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 ${T_ENV})  # a path that is missing may look like a name on a hub
  if(T_RANKS)
    list(APPEND environment ASAN_OPTIONS=detect_leaks=0)  # Open MPI itself leaks at exit
  endif()
  set_tests_properties(${cases} PROPERTIES LABELS "${labels}" TIMEOUT ${T_TIMEOUT} ENVIRONMENT "${environment}")
  list(REMOVE_ITEM cases ${T_LABEL}.${name}.1)  # one rank uses one core
  if(cases AND (T_RANKS OR T_SERIAL))
    # Ranks use all cores: two launches at once only slow each other down.
    set_tests_properties(${cases} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()

# A test that is a script: trireme_script_test(layers LABEL setup COMMAND scripts/check_layers)
# LONG: only scripts/test --full runs it, because others cover what it covers, less closely. WIDE: scripts/test --ci runs it,
# too, but not scripts/test: over a minute of one feature's many ways.
# SERIAL: alone, for what it compares takes all cores, or time matters to it. LOCK: never at once with others of that word,
# because they use the same folder or port. COST: about its seconds, for those of over a minute: they start first, so that no
# core waits for one at the end.
function(trireme_script_test name)
  cmake_parse_arguments(T "SERIAL;LONG;WIDE" "LABEL;TIMEOUT;LOCK;COST" "COMMAND;ENV" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 1200)  # a hang, even where the host takes most of the time away
  endif()
  add_test(NAME ${T_LABEL}.${name} COMMAND ${T_COMMAND} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set(labels ${T_LABEL})
  if(T_LONG)
    list(APPEND labels long)
  endif()
  if(T_WIDE)
    list(APPEND labels wide)
  endif()
  set_tests_properties(${T_LABEL}.${name} PROPERTIES LABELS "${labels}" TIMEOUT ${T_TIMEOUT}
                       ENVIRONMENT "TRIREME_BUILD=${PROJECT_BINARY_DIR};HF_HUB_OFFLINE=1;${T_ENV}" SKIP_RETURN_CODE 77)
  if(T_SERIAL)
    set_tests_properties(${T_LABEL}.${name} PROPERTIES RUN_SERIAL ON)
  endif()
  if(T_LOCK)
    set_tests_properties(${T_LABEL}.${name} PROPERTIES RESOURCE_LOCK ${T_LOCK})
  endif()
  if(T_COST)
    set_tests_properties(${T_LABEL}.${name} PROPERTIES COST ${T_COST})
  endif()
endfunction()
