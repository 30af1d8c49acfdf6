// How a process of the program ends once its work is done. Not about failures: those end in launch/program.cc.
#pragma once

namespace trireme {

// Ends this process with a status, everything printed. Libtorch would take its tables of operators apart first, for a
// quarter of the time that a short command takes; the system frees them at once. Where a library of a device is loaded,
// or a sanitizer looks for leaks, it returns the status, and main ends as usual: such libraries have an end of their
// own.
int EndProcess(int status);

}  // namespace trireme
