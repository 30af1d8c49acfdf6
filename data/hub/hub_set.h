// Where the files of a data set of a hub are on this machine: a small file for each name, below data.cache, written
// once all of them are there. Asks no hub.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

struct HubSet {
  std::string commit;
  std::vector<std::filesystem::path> files;  // in the order in which they are read
};

// `title`: the name as the configuration has it. Nothing: none was kept, or its files are gone.
std::optional<HubSet> FindHubSet(const std::filesystem::path& cache, const std::string& title);
void KeepHubSet(const std::filesystem::path& cache, const std::string& title, const HubSet& set);

// The file for that name.
std::filesystem::path HubSetFile(const std::filesystem::path& cache, const std::string& title);

}  // namespace trireme
