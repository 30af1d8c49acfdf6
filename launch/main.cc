// The program `trireme`.
#include "launch/commands.h"
#include "launch/program.h"

int main(int argc, char** argv) { return trireme::RunProgram(trireme::Commands(), {argv + 1, argv + argc}); }
