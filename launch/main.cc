// The program `trireme`. Nothing else is here: tests run the same commands (launch/program.h) without it.
#include "launch/commands.h"
#include "launch/offered_names.h"
#include "launch/process_end.h"
#include "launch/program.h"
#include "launch/thread_waits.h"

// Before the initialisation of any library.
__attribute__((section(".preinit_array"), used)) static void (*const first)(int, char**,
                                                                            char**) = trireme::UseShortSpins;

int main(int argc, char** argv) {
  trireme::OfferNamesOfLists();
  return trireme::EndProcess(trireme::RunProgram(trireme::Commands(), {argv + 1, argv + argc}));
}
