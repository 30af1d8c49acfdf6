// What `trireme --version` says of the program: its version, commit, provider and the libraries it was built with.
#pragma once

#include <string>

namespace trireme {

// "0.1.0 (3bb7d988ab12; twin; torch 2.7.1, HDF5 1.10.8, Protobuf 3.21.12)"
std::string VersionText();

}  // namespace trireme
