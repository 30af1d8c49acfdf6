// IdleModels: which models of remote training are in memory, and where the others wait: those that were used longest
// ago are written to files of this rank, under the directory of checkpoints, and read again when a request needs them.
// The files live as long as the server: what is to be kept is saved by its client.
#pragma once

#include <cstdint>
#include <filesystem>
#include <list>
#include <string>
#include <vector>

namespace trireme {

class IdleModels {
 public:
  // in_memory: models at most, but for those that a unit of work needs at once.
  IdleModels(std::filesystem::path directory, int64_t in_memory, int rank);
  ~IdleModels();
  IdleModels(const IdleModels&) = delete;
  IdleModels& operator=(const IdleModels&) = delete;

  // It is in memory, and needed now.
  void Use(const std::string& id);
  void Drop(const std::string& id);
  // Those that are to leave memory, except the last `busy` ones that were used; they count as left from now on.
  std::vector<std::string> TakeSurplus(int64_t busy);
  std::filesystem::path FileOf(const std::string& id) const;

 private:
  const std::filesystem::path folder_;
  const int64_t in_memory_;
  std::list<std::string> used_;  // in memory, the latest first
};

}  // namespace trireme
