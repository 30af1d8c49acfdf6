// Runs several commands of the program one after the other in one job: starting a process is expensive, above all on
// device npu, so a parity test runs many cases in one launch. The file has one command per line, a JSON list of words.
#include <fstream>
#include <iostream>

#include "core/base/error.h"
#include "core/base/json.h"
#include "launch/commands.h"
#include "launch/offered_names.h"
#include "launch/program.h"

int main(int argc, char** argv) {
  trireme::OfferNamesOfLists();
  return trireme::RunAsProgram([&](trireme::Job& job) {
    if (argc != 2) throw trireme::InputError("write many_commands FILE");
    std::ifstream file(argv[1]);
    if (!file) throw trireme::InputError(argv[1], " cannot be read");
    for (std::string line; std::getline(file, line);) {
      trireme::RunCommand(trireme::Commands(), trireme::Json::parse(line).get<std::vector<std::string>>(),
                          job);
    }
  });
}
