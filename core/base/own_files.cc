#include "core/base/own_files.h"

#include <system_error>

namespace trireme {

namespace fs = std::filesystem;

fs::path ProgramFolder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

fs::path OwnFile(const std::string& name) {
  std::error_code error;
  for (fs::path folder = ProgramFolder(); folder.has_relative_path(); folder = folder.parent_path()) {
    if (fs::exists(folder / "lib" / name, error)) return folder / "lib" / name;
  }
  return {};
}

}  // namespace trireme
