// What a program wants to know and set of libtorch as a whole: version, threads, capabilities. No tensors in
// the interface, so that a caller needs no torch header.
#pragma once

#include <string>

namespace trireme {

// As the headers were at build time and as the loaded library says, for example "2.7.1".
std::string TorchHeaderVersion();

// How many threads one operator may use.
int TorchThreads();
void SetTorchThreads(int threads);

// The same bits on every run; an operator that cannot warns.
void SetTorchDeterministic(bool on);

// Matrix products sum in fp32 whatever their operands are, and fp32 operands keep all their bits (no TF32). Of
// devices whose libraries would round for speed.
void SetExactSums();

// The widest vector instructions that ATen chose on this machine, for example "AVX512".
std::string TorchCpuCapability();

}  // namespace trireme
