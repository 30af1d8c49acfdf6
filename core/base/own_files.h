// Files of Trireme that the program opens by itself: modules, kernels. Found from where the program is, so that it
// holds no path, and neither a build's tree nor an installation minds being moved.
#pragma once

#include <filesystem>
#include <string>

namespace trireme {

// The folder of this program.
std::filesystem::path ProgramFolder();

// The file of this name in the nearest folder named lib, beside the program or further up; empty: there is none.
std::filesystem::path OwnFile(const std::string& name);

}  // namespace trireme
