// Memory shared between processes: files without a name, mapped once a process however many communicators use
// them. Knows nothing of what lies in the memory.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "twin/hccl/sockets.h"

namespace twin {

class Mapping {
 public:
  // Maps the whole file, of which at least `bytes` must exist.
  Mapping(int file, size_t bytes);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* base() const { return base_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  size_t bytes_;
};

// The mapping of a file that another process sent; the same one as long as anybody here holds it.
std::shared_ptr<Mapping> MapOnce(const Fd& file, size_t bytes);

struct Board {
  Fd file;
  std::unique_ptr<Mapping> mapping;
};

// The board of communicator `id` on this host, made by the first of this process' members that asks. Members
// in one process get one address, so that tools which follow memory accesses see one memory.
std::shared_ptr<Board> LocalBoard(const std::string& id, size_t bytes);

}  // namespace twin
