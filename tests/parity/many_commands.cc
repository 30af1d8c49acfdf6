// Runs several commands of the program one after the other in one job: starting a process is expensive, above all on
// device npu, so a parity test runs many cases in one launch. The file has one command per line, a JSON list of words.
// With --refusals (one rank only) a command that is refused prints {"refused": its message}, and the others follow.
#include <fstream>
#include <iostream>
#include <string_view>

#include "core/base/error.h"
#include "core/base/json.h"
#include "launch/commands.h"
#include "launch/offered_names.h"
#include "launch/process_end.h"
#include "launch/program.h"

int main(int argc, char** argv) {
  trireme::OfferNamesOfLists();
  return trireme::EndProcess(trireme::RunAsProgram([&](trireme::Job& job) {
    const bool go_on = argc == 3 && std::string_view(argv[1]) == "--refusals";
    if (argc != 2 && !go_on) throw trireme::InputError("write many_commands [--refusals] FILE");
    std::ifstream file(argv[argc - 1]);
    if (!file) throw trireme::InputError(argv[argc - 1], " cannot be read");
    for (std::string line; std::getline(file, line);) {
      try {
        trireme::RunCommand(trireme::Commands(), trireme::Json::parse(line).get<std::vector<std::string>>(), job);
      } catch (const trireme::Error& refusal) {
        if (!go_on || refusal.kind() != trireme::ErrorKind::kInput) throw;
        std::cout << trireme::Json{{"refused", refusal.what()}} << std::endl;
      }
    }
  }));
}
