# How every target of the project is declared. One function for each kind, so that flags, names and labels are the same
# everywhere.

set(LIBREYOLO_WARNINGS -Wall -Wextra -Werror -Wno-missing-field-initializers)

# ly_library(NAME SOURCES a.cc ... [DEPS libreyolo::x ...] [PRIVATE_DEPS ...])
# Makes the static library ly_NAME with the alias libreyolo::NAME. Includes are written from the project's root.
function(ly_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  if(ARG_SOURCES)
    add_library(ly_${name} STATIC ${ARG_SOURCES})
    target_include_directories(ly_${name} PUBLIC ${CMAKE_SOURCE_DIR})
    target_compile_options(ly_${name} PRIVATE ${LIBREYOLO_WARNINGS})
    target_link_libraries(ly_${name} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
  else()
    add_library(ly_${name} INTERFACE)
    target_include_directories(ly_${name} INTERFACE ${CMAKE_SOURCE_DIR})
    target_link_libraries(ly_${name} INTERFACE ${ARG_DEPS})
  endif()
  add_library(libreyolo::${name} ALIAS ly_${name})
endfunction()

# ly_executable(NAME SOURCES main.cc DEPS ...): an executable in build/<preset>/bin.
function(ly_executable name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(${name} PRIVATE ${LIBREYOLO_WARNINGS})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
endfunction()

# ly_test(NAME SOURCES a_test.cc ... DEPS ... [LABELS unit] [TIMEOUT 60])
# One GoogleTest executable for a folder; each TEST becomes a ctest test. Tests see LIBREYOLO_SOURCE_DIR (the checkout)
# and LIBREYOLO_SHARED_DIR (the handed fixtures beside it, which may be absent).
function(ly_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(LIBREYOLO_SANITIZE)
    math(EXPR ARG_TIMEOUT "10 * ${ARG_TIMEOUT}")  # instrumented code is slow
  endif()
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(${name} PRIVATE ${LIBREYOLO_WARNINGS})
  target_compile_definitions(${name} PRIVATE
    LIBREYOLO_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
    LIBREYOLO_SHARED_DIR="${LIBREYOLO_SHARED_DIR}"
    LIBREYOLO_BIN_DIR="${CMAKE_BINARY_DIR}/bin"
    LIBREYOLO_TEST_BIN_DIR="${CMAKE_BINARY_DIR}/tests")
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest GTest::gtest_main)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
endfunction()

# ly_python_test(NAME SCRIPT test_x.py [LABELS e2e] [TIMEOUT 300]): a Python unittest file on the shipped binaries.
function(ly_python_test name)
  cmake_parse_arguments(ARG "" "SCRIPT;TIMEOUT" "LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS e2e)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_SCRIPT} -v)
  # The longest begin first, so that none of them runs alone at the end.
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} COST ${ARG_TIMEOUT}
    ENVIRONMENT "LIBREYOLO_BIN_DIR=${CMAKE_BINARY_DIR}/bin;LIBREYOLO_TEST_BIN_DIR=${CMAKE_BINARY_DIR}/tests;LIBREYOLO_SHARED_DIR=${LIBREYOLO_SHARED_DIR}")
endfunction()

# ly_benchmark(NAME SOURCES ... DEPS ...): a Google Benchmark executable in build/<preset>/bench.
function(ly_benchmark name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(${name} PRIVATE ${LIBREYOLO_WARNINGS})
  target_compile_definitions(${name} PRIVATE
    LIBREYOLO_SOURCE_DIR="${CMAKE_SOURCE_DIR}" LIBREYOLO_SHARED_DIR="${LIBREYOLO_SHARED_DIR}")
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} benchmark::benchmark benchmark::benchmark_main)
endfunction()

# ly_fuzz(NAME SOURCE x_fuzz.cc CORPUS dir DEPS ...)
# The source defines LLVMFuzzerTestOneInput. In every build it runs once over its corpus by a plain main (a ctest test
# labelled fuzz); with LIBREYOLO_FUZZ it is also linked with libFuzzer.
function(ly_fuzz name)
  cmake_parse_arguments(ARG "" "SOURCE;CORPUS" "DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCE})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(${name} PRIVATE ${LIBREYOLO_WARNINGS})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  if(LIBREYOLO_FUZZ)
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_test(NAME ${name} COMMAND ${name} -runs=0 ${ARG_CORPUS})
  else()
    target_sources(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/fuzz/plain_main.cc)
    add_test(NAME ${name} COMMAND ${name} ${ARG_CORPUS})
  endif()
  set_tests_properties(${name} PROPERTIES LABELS fuzz TIMEOUT 120)
endfunction()
