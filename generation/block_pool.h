// BlockPool: the blocks of a KV cache: who uses them, and which prefix of tokens a full one holds. A prefix
// is a chain of full blocks, found by a hash of (the prefix before, the block's tokens) and compared in full:
// a collision can never share another prefix's keys. Blocks without a user keep their prefix until they are
// needed for something else, the longest unused first. Integers only: the tensors are elsewhere, and nothing
// here depends on time or memory addresses, so that every rank that makes the same calls gets the same
// blocks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace trireme {

class BlockPool {
 public:
  using Prefix = int64_t;  // identifies a chain of full blocks; never used twice

  explicit BlockPool(int64_t blocks) : users_(static_cast<size_t>(blocks)), published_(users_.size()) {}

  int64_t size() const { return static_cast<int64_t>(users_.size()); }
  // Blocks without a user, with or without a prefix.
  int64_t available() const { return size() - used_; }
  void Grow(int64_t blocks);

  // A block with one user, whose content is about to be replaced; nothing if all are in use.
  std::optional<int32_t> Take();
  // One more user of a block that Find gave.
  void Share(int32_t block);
  void Release(int32_t block);
  int64_t users(int32_t block) const { return users_.at(static_cast<size_t>(block)); }

  // Before the first block: prefixes of different salts share nothing.
  Prefix Root(const std::string& salt);
  int64_t roots() const { return static_cast<int64_t>(roots_.size()); }
  struct Found {
    int32_t block;
    Prefix prefix;  // up to and including the block
  };
  std::optional<Found> Find(Prefix before, std::span<const int64_t> tokens) const;
  // The full block holds these tokens after `before`. If another block holds the same already, that one stays
  // the one that is found. Returns the prefix up to and including the block.
  Prefix Publish(int32_t block, Prefix before, std::span<const int64_t> tokens);
  // Nothing is found any more, as after a change of weights.
  void Forget();

 private:
  struct Key {
    Prefix before;
    std::vector<int64_t> tokens;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };

  void Withdraw(int32_t block);
  void DropUnusedRoots();

  std::vector<int64_t> users_;
  int64_t used_ = 0;                   // blocks with a user
  int32_t untouched_ = 0;              // blocks from here on were never taken
  std::vector<int32_t> blank_;         // taken before; without a user and a prefix
  std::map<int64_t, int32_t> unused_;  // without a user, with a prefix; the longest unused first
  std::unordered_map<Key, Found, KeyHash> found_;
  struct Published {
    const Key* key = nullptr;  // in found_
    int64_t unused_since = 0;  // its key in unused_
  };
  std::vector<Published> published_;
  std::map<std::string, Prefix> roots_;
  int64_t next_prefix_ = 0, clock_ = 0;
};

}  // namespace trireme
