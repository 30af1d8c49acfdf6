// The program `trireme`. Nothing else is here: tests run the same commands (launch/program.h) without
// it.
#include "launch/commands.h"
#include "launch/offered_names.h"
#include "launch/program.h"
#include "launch/thread_waits.h"

int main(int argc, char** argv) {
  trireme::UseShortSpins(argv);
  trireme::OfferNamesOfLists();
  return trireme::RunProgram(trireme::Commands(), {argv + 1, argv + argc});
}
