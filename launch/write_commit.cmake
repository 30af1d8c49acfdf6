# Writes OUTPUT, a source file with the commit of SOURCE, only if the commit is another. Where there is no repository, as in an
# archive of the sources, TRIREME_COMMIT names it.
set(commit "$ENV{TRIREME_COMMIT}")
if(NOT commit)
  execute_process(COMMAND git -C "${SOURCE}" rev-parse --short=12 HEAD OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_QUIET)
endif()
if(NOT commit MATCHES "^[0-9a-f]+$")
  set(commit "commit unknown")
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT "// Written by launch/write_commit.cmake.
namespace trireme {
extern const char* const kCommit;
const char* const kCommit = \"${commit}\";
}  // namespace trireme
")
