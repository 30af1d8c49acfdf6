// For the parity tests: the directory that a run's model has once its vocabulary has grown.
#include <iostream>

#include "core/base/error.h"
#include "core/config/load.h"
#include "session/grown_model.h"

int main(int argc, char** argv) {
  try {
    std::cout << trireme::GrownModel(trireme::LoadConfig(argv[argc - 1], {})) << "\n";
    return 0;
  } catch (const trireme::Error& error) {
    std::cerr << error.what() << "\n";
    return error.exit_status();
  }
}
