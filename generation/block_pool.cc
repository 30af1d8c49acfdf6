#include "generation/block_pool.h"

#include <unordered_set>

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr int64_t kFewSalts = 1024;  // beyond one per block

}  // namespace

size_t BlockPool::KeyHash::operator()(const Key& key) const {
  auto hash = static_cast<uint64_t>(key.before) * 0x9E3779B97F4A7C15U;
  for (const int64_t token : key.tokens) {
    hash = (hash ^ static_cast<uint64_t>(token)) * 0xFF51AFD7ED558CCDU;
    hash ^= hash >> 32U;
  }
  return hash;
}

void BlockPool::Grow(int64_t blocks) {
  users_.resize(users_.size() + static_cast<size_t>(blocks));
  published_.resize(users_.size());
}

// Blocks of no use first, then new ones, and only then those whose prefix may still be asked for.
std::optional<int32_t> BlockPool::Take() {
  int32_t block = untouched_;
  if (!blank_.empty()) {
    block = blank_.back();
    blank_.pop_back();
  } else if (untouched_ < size()) {
    ++untouched_;
  } else if (!unused_.empty()) {
    block = unused_.begin()->second;
    unused_.erase(unused_.begin());
    Withdraw(block);
  } else {
    return std::nullopt;
  }
  users_[static_cast<size_t>(block)] = 1;
  ++used_;
  return block;
}

void BlockPool::Share(int32_t block) {
  if (users_.at(static_cast<size_t>(block))++ > 0) return;
  TRIREME_CHECK(unused_.erase(published_[static_cast<size_t>(block)].unused_since) == 1) << "block " << block;
  ++used_;
}

void BlockPool::Release(int32_t block) {
  TRIREME_CHECK(users_.at(static_cast<size_t>(block)) > 0) << "block " << block << " has no user";
  if (--users_[static_cast<size_t>(block)] > 0) return;
  --used_;
  Published& published = published_[static_cast<size_t>(block)];
  if (published.key == nullptr) {
    blank_.push_back(block);
  } else {
    published.unused_since = clock_++;
    unused_[published.unused_since] = block;
  }
}

BlockPool::Prefix BlockPool::Root(const std::string& salt) {
  if (std::ssize(roots_) > size() + kFewSalts) DropUnusedRoots();
  const auto [found, fresh] = roots_.try_emplace(salt, next_prefix_);
  if (fresh) ++next_prefix_;
  return found->second;
}

// Callers choose salts: those whose blocks are gone must not stay for ever. A row that still runs with a dropped
// root publishes what nobody finds.
void BlockPool::DropUnusedRoots() {
  std::unordered_set<Prefix> used;
  for (const auto& [key, block] : found_) used.insert(key.before);
  std::erase_if(roots_, [&](const auto& root) { return !used.contains(root.second); });
}

std::optional<BlockPool::Found> BlockPool::Find(Prefix before, std::span<const int64_t> tokens) const {
  const auto found = found_.find(Key{before, {tokens.begin(), tokens.end()}});
  return found == found_.end() ? std::nullopt : std::optional(found->second);
}

BlockPool::Prefix BlockPool::Publish(int32_t block, Prefix before, std::span<const int64_t> tokens) {
  const auto [entry, fresh] =
      found_.try_emplace(Key{before, {tokens.begin(), tokens.end()}}, Found{block, next_prefix_});
  if (fresh) {
    ++next_prefix_;
    published_.at(static_cast<size_t>(block)).key = &entry->first;
  }
  return entry->second.prefix;
}

void BlockPool::Withdraw(int32_t block) {
  Published& published = published_[static_cast<size_t>(block)];
  found_.erase(found_.find(*published.key));
  published = {};
}

void BlockPool::Forget() {
  for (const auto& [since, block] : unused_) blank_.push_back(block);
  unused_.clear();
  found_.clear();
  roots_.clear();
  for (Published& published : published_) published = {};
}

}  // namespace trireme
