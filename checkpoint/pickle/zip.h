// ZipDirectory: the members of a zip in memory, as torch.save writes it: stored, not deflated, so that each is a span
// of the zip's own bytes. Zip64 included. Anything else is refused. Copies nothing.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

namespace trireme {

bool LooksLikeZip(std::span<const std::byte> bytes);

class ZipDirectory {
 public:
  ZipDirectory(std::span<const std::byte> bytes, std::string where);

  // By name without the top directory; refuses one that is not there.
  std::span<const std::byte> Find(const std::string& name) const;
  bool Has(const std::string& name) const { return members_.contains(name); }

 private:
  void ReadEntries(uint64_t at, uint64_t count);

  std::span<const std::byte> bytes_;
  std::string where_;
  std::map<std::string, std::span<const std::byte>> members_;
};

}  // namespace trireme
