// The one door for files that a user names. Only regular files are opened: a FIFO would wait for ever, a device
// may never end. Whatever is wrong with the path is an input error that names it; nothing here throws
// std::filesystem's exceptions. Whole small text files are read here; large files have readers of their own.
#pragma once

#include <filesystem>
#include <string>

namespace trireme {

// A descriptor for reading, the caller's to close.
[[nodiscard]] int OpenInput(const std::filesystem::path& path);

std::string ReadTextFile(const std::string& path);

// What lies behind the path. A path that leads nowhere for another reason than that nothing is there (a loop of
// links, a name that is too long, a directory that may not be searched) is refused.
bool PathExists(const std::filesystem::path& path);
bool IsDirectory(const std::filesystem::path& path);

// The text with control characters as escapes (\x1b, \n), so that a name from a file cannot steer a terminal.
std::string Printable(const std::string& text);

}  // namespace trireme
