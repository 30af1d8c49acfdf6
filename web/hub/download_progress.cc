#include "web/hub/download_progress.h"

#include <array>
#include <iomanip>
#include <sstream>

#include "core/base/log.h"

namespace trireme {

std::string SizeText(int64_t bytes) {
  constexpr std::array kUnits = {"B", "kB", "MB", "GB", "TB"};
  auto size = static_cast<double>(bytes);
  size_t unit = 0;
  for (; size >= 1000 && unit + 1 < kUnits.size(); ++unit) size /= 1000;
  std::ostringstream text;
  text << std::fixed << std::setprecision(unit == 0 ? 0 : 2) << size << " " << kUnits[unit];
  return text.str();
}

void DownloadProgress::At(const std::string& file, int64_t file_bytes, int64_t fresh) {
  constexpr std::chrono::seconds kPause{10};
  fresh_bytes_ += fresh;
  const std::chrono::duration<double> since = Clock::now() - last_;
  if (since < kPause) return;
  const double rate = static_cast<double>(fresh_bytes_) / since.count();
  const int64_t here = done_bytes_ + file_bytes;
  std::ostringstream text;
  if (rate > 0) text << ", " << static_cast<int64_t>(static_cast<double>(total_bytes_ - here) / rate) << " s left";
  TRIREME_LOG(INFO) << what_ << ": " << SizeText(here) << " of " << SizeText(total_bytes_) << " ("
                    << 100 * here / (total_bytes_ > 0 ? total_bytes_ : 1) << " %), "
                    << SizeText(static_cast<int64_t>(rate)) << " per second" << text.str() << ", at " << file;
  fresh_bytes_ = 0;
  last_ = Clock::now();
}

}  // namespace trireme
