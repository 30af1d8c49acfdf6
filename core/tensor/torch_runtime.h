// Process-wide libtorch settings and facts: version, threads, capabilities. No tensors in
// the interface, so that a caller needs no torch header.
#pragma once

#include <string>

namespace trireme {

// The version of the headers at build time and of the loaded library, for example "2.7.1".
std::string TorchHeaderVersion();

// How many threads one operator may use.
int TorchThreads();
void SetTorchThreads(int threads);

// The same bits on every run; an operator without a deterministic version warns.
void SetTorchDeterministic(bool on);

// Matmuls accumulate in fp32 whatever their operands are, and fp32 operands keep all their bits (no TF32).
// For devices whose libraries would trade precision for speed.
void SetExactSums();

// The widest vector instructions that ATen chose on this machine, for example "AVX512".
std::string TorchCpuCapability();

}  // namespace trireme
