// What the operating system knows of this process.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

// The most memory that was resident at one time since the start.
int64_t PeakResidentBytes();

// Lets the C library keep what was freed instead of handing it back: a training step allocates the same large
// blocks again and again, and every page that comes anew costs a fault.
void KeepFreedMemory();

// A write beyond the limit on file sizes (ulimit -f) then fails like one on a full disk, and the error names the
// file; otherwise SIGXFSZ ends the process without a word.
void FailWritesBeyondFileLimit();

// The path of this program, from the working directory where it is below that.
std::string ProgramPath();

// As a shell takes it for one word.
std::string ShellWord(const std::string& text);

}  // namespace trireme
