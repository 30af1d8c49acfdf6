#include "data/prefetch.h"

#include <utility>

#include "core/base/clock.h"
#include "text/all_cores.h"

namespace trireme {

void Prefetcher::Start(std::vector<int64_t> next) {
  if (coming_.valid()) {
    const auto start = Clock::now();
    here_ = coming_.get();  // throws what the thread threw
    waited_seconds_ += SecondsSince(start);
  }
  coming_ = std::async(std::launch::async, [rows = rows_, next = std::move(next)] {
    std::vector<Row> read(next.size());
    const auto one = [&](size_t i) { read[i] = rows->Read(next[i]); };
    if (rows->ReadingIsWork()) {
      OnAllCores(next.size(), one);
    } else {
      for (size_t i = 0; i < next.size(); ++i) one(i);
    }
    Found found;
    for (size_t i = 0; i < next.size(); ++i) found.emplace(next[i], std::move(read[i]));
    return found;
  });
}

Row Prefetcher::Read(int64_t row) const {
  const auto found = here_.find(row);
  return found != here_.end() ? found->second : rows_->Read(row);
}

}  // namespace trireme
