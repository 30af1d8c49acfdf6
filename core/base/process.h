// What the operating system knows about this process.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

// The most memory that was resident at any time since the start, or since ResetPeakResident.
int64_t PeakResidentBytes();
// Returns freed memory to the system and forgets the peak so far; where the system cannot, the peak stays.
void ResetPeakResident();

// Makes the C library keep freed memory instead of returning it: a training step allocates the same large
// blocks again and again, and every fresh page costs a page fault.
void KeepFreedMemory();

// Makes a write beyond the file size limit (ulimit -f) fail like one on a full disk, so that the error names
// the file; otherwise SIGXFSZ ends the process without a message.
void FailWritesBeyondFileLimit();

// The path of this program, relative to the working directory if it is below that.
std::string ProgramPath();

// Quoted so that a shell reads it as one word.
std::string ShellWord(const std::string& text);

}  // namespace trireme
