#include "train/data/prefetch.h"

#include <chrono>
#include <utility>

namespace trireme {

void Prefetcher::Start(std::vector<int64_t> next) {
  if (coming_.valid()) {
    const auto start = std::chrono::steady_clock::now();
    here_ = coming_.get();  // throws what the thread threw
    waited_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  coming_ = std::async(std::launch::async, [rows = rows_, next = std::move(next)] {
    Found found;
    for (const int64_t row : next) found.emplace(row, rows->Read(row));
    return found;
  });
}

Row Prefetcher::Read(int64_t row) const {
  const auto found = here_.find(row);
  return found != here_.end() ? found->second : rows_->Read(row);
}

}  // namespace trireme
