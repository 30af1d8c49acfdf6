// LineProgram: a program of the user's that reads a line for each completion, or other question, from its standard
// input and answers each with one line, in order. It is started when it is first asked and kept running. What lines
// mean is up to the caller. No torch.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace trireme {

class LineProgram {
 public:
  // command: for the shell; who: it in errors, "the reward program NAME"; seconds: for the lines of one call; asked:
  // what a line is about, limit: what seconds are called, both in errors.
  LineProgram(std::string command, std::string who, double seconds, std::string asked = "completions",
              std::string limit = "rl.reward_seconds")
      : command_(std::move(command)),
        who_(std::move(who)),
        seconds_(seconds),
        asked_(std::move(asked)),
        limit_(std::move(limit)) {}
  ~LineProgram() { Stop(); }
  LineProgram(const LineProgram&) = delete;
  LineProgram& operator=(const LineProgram&) = delete;

  const std::string& who() const { return who_; }
  // Its answers. Dying, hanging and answering too much are errors, after which it should be stopped.
  std::vector<std::string> Ask(const std::vector<std::string>& lines);
  // Whether the last call failed because of what it said after the call before had returned: then the answers of that
  // one were not to its questions.
  bool said_too_much_late() const { return said_too_much_late_; }
  // It is started anew when it is asked again.
  void Stop();

 private:
  void Start();
  struct Call {
    size_t lines = 0;
    std::chrono::steady_clock::time_point end;
  };
  // Writes the text and reads lines until there are as many answers as wanted.
  void Exchange(const std::string& text, size_t wanted, const Call& call, std::vector<std::string>& answers);
  std::string HowItEnded();
  void RefuseExtraLines(int silence_ms);

  const std::string command_, who_;
  const double seconds_;
  const std::string asked_, limit_;
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
  std::string unread_;
  bool said_too_much_late_ = false;
};

}  // namespace trireme
