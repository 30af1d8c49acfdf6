// The single entry point for files named by the user. Only regular files are opened: a FIFO would block
// forever, a device may never end. Anything wrong with the path is an input error that names it; nothing here
// throws std::filesystem's exceptions. Small text files are read whole; large files have their own readers.
#pragma once

#include <filesystem>
#include <string>

namespace trireme {

// A descriptor for reading; the caller closes it.
[[nodiscard]] int OpenInput(const std::filesystem::path& path);

std::string ReadTextFile(const std::string& path);

// What the path refers to. A path that cannot be resolved for a reason other than absence (a loop of links, a
// name that is too long, a directory without search permission) is an input error.
bool PathExists(const std::filesystem::path& path);
bool IsDirectory(const std::filesystem::path& path);

// The text with control characters and bytes that are not UTF-8 as escapes (\x1b, \n, \xff), so that a name
// from a file cannot control the terminal and every message is text.
std::string Printable(const std::string& text);

}  // namespace trireme
