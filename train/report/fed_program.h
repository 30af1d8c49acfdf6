// FedProgram: a program beside the run that is fed with lines on its standard input. Whatever becomes of it, the run
// goes on: sending neither blocks nor throws. What it says goes to stderr. What lines mean is up to the caller.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace trireme {

class FedProgram {
 public:
  // Starts it. who: it in the log, "the reporter wandb".
  FedProgram(const std::vector<std::string>& command, std::string who);
  // Its input ends; it is not waited for.
  ~FedProgram();
  FedProgram(const FedProgram&) = delete;
  FedProgram& operator=(const FedProgram&) = delete;

  // A program that has ended, or that does not read what it is sent, is named once in the log; lines are dropped from
  // then on.
  void Send(const std::string& line);
  // Its input ends; waits so long for its end. Later calls do nothing.
  void Finish(double seconds);

 private:
  void Start(const std::vector<std::string>& command);
  void Flush();
  bool Reap(double seconds, int& status);
  void CloseInput();
  void GiveUp(const std::string& why);

  const std::string who_;
  pid_t pid_ = -1;
  int to_ = -1;
  std::string unsent_;
};

}  // namespace trireme
