// Live handles of one kind. A handle is a disguised number that is never reused, so a stale, foreign or
// invented handle is distinguished from a live one. Owns the objects; knows nothing of what they do.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace twin {

template <class Object>
class Registry {
 public:
  // `base` separates the handles of one kind from those of another, and from any mapped address.
  explicit Registry(uintptr_t base) : next_(base) {}

  void* Add(std::shared_ptr<Object> object) {
    std::unique_lock lock(mutex_);
    next_ += kStep;
    void* handle = reinterpret_cast<void*>(next_);
    living_.emplace(handle, std::move(object));
    return handle;
  }

  std::shared_ptr<Object> Find(const void* handle) const {
    std::shared_lock lock(mutex_);
    const auto found = living_.find(handle);
    return found == living_.end() ? nullptr : found->second;
  }

  std::shared_ptr<Object> Remove(const void* handle) {
    std::unique_lock lock(mutex_);
    const auto found = living_.find(handle);
    if (found == living_.end()) return nullptr;
    std::shared_ptr<Object> object = std::move(found->second);
    living_.erase(found);
    return object;
  }

  std::vector<std::pair<void*, std::shared_ptr<Object>>> All() const {
    std::shared_lock lock(mutex_);
    std::vector<std::pair<void*, std::shared_ptr<Object>>> all;
    for (const auto& [handle, object] : living_) all.emplace_back(const_cast<void*>(handle), object);
    return all;
  }

 private:
  static constexpr uintptr_t kStep = 64;
  mutable std::shared_mutex mutex_;
  uintptr_t next_;
  std::unordered_map<const void*, std::shared_ptr<Object>> living_;
};

}  // namespace twin
