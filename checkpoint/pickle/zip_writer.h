// ZipWriter: a zip as torch.save writes it, into a stream: members stored, not deflated, their bytes at multiples
// of 64. Zip64 where numbers need it. Reading is zip.h's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trireme {

// Takes the next bytes of a file.
using ByteSink = std::function<void(const void* data, size_t bytes)>;

class ZipWriter {
 public:
  // No `sink`: only counts, so that a file's length is known before its content. `top`: the directory that all members
  // are in. Numbers from `zip64_from` on are written in 64 bits.
  ZipWriter(ByteSink sink, std::string top, uint64_t zip64_from = 0xffffffff);

  // `data` may be nullptr where only bytes are counted.
  void Add(const std::string& name, const void* data, uint64_t bytes);
  void Add(const std::string& name, const std::string& text) { Add(name, text.data(), text.size()); }
  // The directory at the end; returns the zip's length.
  uint64_t Close();

 private:
  struct Member {
    std::string name;
    uint64_t bytes, offset;
    uint32_t crc;
  };

  void Write(const void* data, uint64_t bytes);
  void Write(const std::string& text) { Write(text.data(), text.size()); }
  std::string LocalHeader(const Member& member) const;
  std::string Entry(const Member& member) const;
  bool IsLarge(uint64_t number) const { return number >= zip64_from_; }

  ByteSink sink_;
  std::string top_;
  uint64_t zip64_from_, written_ = 0;
  std::vector<Member> members_;
};

}  // namespace trireme
