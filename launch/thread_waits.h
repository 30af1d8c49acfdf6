// How OpenMP's threads wait for each other between parallel regions. On a host whose cores others use, too, libgomp's
// default, to spin for milliseconds, keeps the thread that everyone waits for off its core. Not about waits for other
// ranks: those are Open MPI's and HCCL's.
#pragma once

namespace trireme {

// Starts this program anew, once, with a short spin (GOMP_SPINCOUNT), which libgomp reads when it is initialised. Does
// nothing where the user has set GOMP_SPINCOUNT or OMP_WAIT_POLICY, and where OMP_NUM_THREADS is 1. An entry of
// .preinit_array: libtorch's own initialisation, most of the start of a process, is then done once.
void UseShortSpins(int argc, char** argv, char** environment);

}  // namespace trireme
