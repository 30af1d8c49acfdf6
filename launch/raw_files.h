// The raw speed of a disk: the reference that checkpoints are compared with.
#pragma once

#include <cstdint>
#include <filesystem>

namespace trireme {

// Seconds to write this many bytes sequentially and sync them.
double SecondsToWrite(const std::filesystem::path& file, uint64_t bytes);
// Seconds to read a file sequentially; call ForgetFile first to read it from the disk.
double SecondsToRead(const std::filesystem::path& file);
// Seconds to copy this many bytes in memory, the best of three.
double SecondsToCopy(uint64_t bytes);
// Asks the system to drop a file from the page cache; it may decline.
void ForgetFile(const std::filesystem::path& file);

}  // namespace trireme
