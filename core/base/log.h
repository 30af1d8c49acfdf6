// The log: lines on stderr with time, rank and place, written by glog. This header names nothing of glog's,
// for its macros LOG and CHECK clash with torch's. Results for users go to stdout, not here.
#pragma once

#include <sstream>
#include <string>

namespace trireme {

enum class LogSeverity { INFO, WARNING, ERROR };

// Until it is called, lines carry no rank. Other ranks than 0 keep INFO to themselves unless a level is set.
void SetLogRank(int rank);

// "[rank 3] ", or nothing while no rank is set.
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

// Gives both branches of the macro's conditional the type void; & binds looser than <<.
struct LogVoid {
  void operator&(std::ostream&) const {}
};

}  // namespace trireme

// TRIREME_LOG(WARNING) << "group " << name << " waits";
#define TRIREME_LOG(severity)                              \
  !::trireme::LogEnabled(::trireme::LogSeverity::severity) \
      ? (void)0                                            \
      : ::trireme::LogVoid() &                             \
            ::trireme::LogLine(::trireme::LogSeverity::severity, __FILE__, __LINE__).stream()
