// The log over glog. The prefix is ours, since only some builds of glog can include a rank in theirs.
#include "core/base/log.h"

#include <gflags/gflags.h>
#include <glog/logging.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <iomanip>
#include <mutex>

#include "core/base/error.h"

DEFINE_string(log_level, "auto",
              "least severe line to log: info, warning or error; auto is info on rank 0 and warning on others");
DEFINE_validator(log_level, [](const char*, const std::string& level) {
  return level == "auto" || level == "info" || level == "warning" || level == "error";
});
// glog's own flag; without this glog complains about a missing directory on every line.
DEFINE_validator(log_dir, [](const char*, const std::string& directory) {
  return directory.empty() || std::filesystem::is_directory(directory);
});

namespace trireme {
namespace {

constexpr int kNoRank = -1;
std::atomic<int> log_rank{kNoRank};

LogSeverity LeastSeverity() {
  if (FLAGS_log_level == "info") return LogSeverity::INFO;
  if (FLAGS_log_level == "warning") return LogSeverity::WARNING;
  if (FLAGS_log_level == "error") return LogSeverity::ERROR;
  return log_rank <= 0 ? LogSeverity::INFO : LogSeverity::WARNING;
}

// glog must be initialised once per process, before its first line; --log_dir is its own flag.
void StartGlogOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    FLAGS_log_prefix = false;
    FLAGS_logtostderr = FLAGS_log_dir.empty();
    FLAGS_alsologtostderr = !FLAGS_log_dir.empty();
    google::InitGoogleLogging("trireme");
  });
}

// "I 11-15 01:42:05.123456 "
std::string SeverityAndTime(LogSeverity severity) {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto since_epoch = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch());
  std::tm local;
  localtime_r(&seconds, &local);
  std::ostringstream text;
  text << "IWE"[static_cast<int>(severity)] << std::put_time(&local, " %m-%d %H:%M:%S.") << std::setw(6)
       << std::setfill('0') << since_epoch.count() % 1000000 << " ";
  return text.str();
}

std::string Basename(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

void SetLogRank(int rank) { log_rank = rank; }

std::string LogRankPrefix() { return log_rank == kNoRank ? "" : Concat("[rank ", log_rank, "] "); }

bool LogEnabled(LogSeverity severity) { return severity >= LeastSeverity(); }

LogLine::LogLine(LogSeverity severity, const char* file, int line) : severity_(severity), file_(file), line_(line) {}

LogLine::~LogLine() {
  StartGlogOnce();
  google::LogMessage(file_, line_, static_cast<int>(severity_)).stream()
      << SeverityAndTime(severity_) << LogRankPrefix() << Basename(file_) << ":" << line_ << ": " << text_.str();
}

}  // namespace trireme
