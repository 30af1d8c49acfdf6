// Patterns of file names in a repository as `datasets` reads them: * within a name, ** over folders. Hidden files, and
// folders that begin with __, match only a pattern that names them. Opens no file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Whether it has anything to match: without that it is the name of one file.
bool IsGlob(std::string_view pattern);

// Of `files` those that match, sorted. An input error for ** beside other letters.
std::vector<std::string> MatchingFiles(const std::string& pattern, const std::vector<std::string>& files);

}  // namespace trireme
