// Memory shared between processes: anonymous files, mapped once per process however many communicators use
// them. Knows nothing of the memory's contents.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "twin/hccl/wire/sockets.h"

namespace twin {

class Mapping {
 public:
  // Maps the whole file, which must have at least `bytes` bytes.
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

// The mapping of a file that another process sent; shared as long as anyone in this process holds it.
std::shared_ptr<Mapping> MapOnce(const Fd& file, size_t bytes);

struct BoardMemory {
  Fd file;
  std::unique_ptr<Mapping> mapping;
};

// The board of communicator `id` on this host, created by the first of this process's members that asks.
// Members in one process get the same address, so that tools that track memory accesses see one memory.
std::shared_ptr<BoardMemory> LocalBoard(const std::string& id, size_t bytes);

}  // namespace twin
