// Mapped files and the two tables that keep a process from mapping one twice.
#include "twin/hccl/membership/mapping.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>

namespace twin {
namespace {

[[noreturn]] void MemoryFailure(const std::string& what, size_t bytes) {
  throw HcclFailure(HCCL_E_MEMORY, what + " of " + std::to_string(bytes) + " bytes: " + std::strerror(errno));
}

// Objects shared while anyone holds them. Never destroyed: members may still leave during static destruction.
template <typename Key, typename Value>
class Shared {
 public:
  template <typename Make>
  std::shared_ptr<Value> Get(const Key& key, Make make) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::erase_if(table_, [](const auto& entry) { return entry.second.expired(); });
    if (std::shared_ptr<Value> held = table_[key].lock()) return held;
    std::shared_ptr<Value> made = make();
    table_[key] = made;
    return made;
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::weak_ptr<Value>> table_;
};

}  // namespace

Mapping::Mapping(int file, size_t bytes) : bytes_(bytes) {
  struct stat status{};
  if (fstat(file, &status) != 0) MemoryFailure("cannot stat a shared memory file; wanted one", bytes);
  if (static_cast<size_t>(status.st_size) < bytes) {
    throw HcclFailure(HCCL_E_MEMORY, "a shared memory file has " + std::to_string(status.st_size) +
                                         " bytes; its owner announced " + std::to_string(bytes));
  }
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (base == MAP_FAILED) MemoryFailure("cannot map shared memory", bytes);
  base_ = static_cast<std::byte*>(base);
}

Mapping::~Mapping() { munmap(base_, bytes_); }

std::shared_ptr<Mapping> MapOnce(const Fd& file, size_t bytes) {
  static auto& table = *new Shared<std::pair<dev_t, ino_t>, Mapping>;
  struct stat status{};
  if (fstat(file.get(), &status) != 0) MemoryFailure("cannot stat a shared memory file; wanted one", bytes);
  // A live mapping keeps the inode alive, so its number cannot be reused by another file.
  return table.Get({status.st_dev, status.st_ino}, [&] { return std::make_shared<Mapping>(file.get(), bytes); });
}

std::shared_ptr<BoardMemory> LocalBoard(const std::string& id, size_t bytes) {
  static auto& table = *new Shared<std::string, BoardMemory>;
  return table.Get(id, [&] {
    auto board = std::make_shared<BoardMemory>();
    board->file = Fd(memfd_create("twin-hccl-board", MFD_CLOEXEC));
    if (!board->file.valid() || ftruncate(board->file.get(), static_cast<off_t>(bytes)) != 0) {
      MemoryFailure("cannot create shared memory", bytes);
    }
    board->mapping = std::make_unique<Mapping>(board->file.get(), bytes);
    return board;
  });
}

}  // namespace twin
