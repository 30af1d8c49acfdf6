// The log: lines on stderr with time, rank and source location, written by glog. This header exposes nothing
// of glog, because its macros LOG and CHECK clash with torch's. Results for users go to stdout, not here.
#pragma once

#include <sstream>
#include <string>

namespace trireme {

enum class LogSeverity { INFO, WARNING, ERROR };

// Until it is called, lines carry no rank. Ranks other than 0 suppress INFO unless a level is set.
void SetLogRank(int rank);

// "[rank 3] ", or empty while no rank is set.
std::string LogRankPrefix();

// Whether a line of this severity would be written: --log_level, or by default INFO on rank 0 and WARNING on
// others.
bool LogEnabled(LogSeverity severity);

// One line of the log, written by its destructor.
class LogLine {
 public:
  LogLine(LogSeverity severity, const char* file, int line);
  LogLine(const LogLine&) = delete;
  LogLine& operator=(const LogLine&) = delete;
  ~LogLine();
  std::ostream& stream() { return text_; }

 private:
  LogSeverity severity_;
  const char* file_;
  int line_;
  std::ostringstream text_;
};

// Makes both branches of the macro's conditional void; & binds looser than <<.
struct LogVoid {
  void operator&(std::ostream&) const {}
};

}  // namespace trireme

// TRIREME_LOG(WARNING) << "group " << name << " waits";
#define TRIREME_LOG(severity)                              \
  !::trireme::LogEnabled(::trireme::LogSeverity::severity) \
      ? (void)0                                            \
      : ::trireme::LogVoid() & ::trireme::LogLine(::trireme::LogSeverity::severity, __FILE__, __LINE__).stream()
