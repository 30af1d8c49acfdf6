// The speed that a disk has without any format: the measure that checkpoints are held against.
#pragma once

#include <cstdint>
#include <filesystem>

namespace trireme {

// Seconds to write so many bytes one after the other and sync them.
double SecondsToWrite(const std::filesystem::path& file, uint64_t bytes);
// Seconds to read a file from its begin to its end; ForgetFile first to read it from the disk.
double SecondsToRead(const std::filesystem::path& file);
// Seconds to copy so many bytes in memory, the best of three.
double SecondsToCopy(uint64_t bytes);
// Asks the system to drop what it keeps of a file in memory; it may not.
void ForgetFile(const std::filesystem::path& file);

}  // namespace trireme
