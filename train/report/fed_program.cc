#include "train/report/fed_program.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/log.h"

namespace trireme {
namespace {

constexpr size_t kMostUnsent = size_t{1} << 24;  // bytes that a program may be behind
constexpr double kSecondsToDie = 0.5;            // between the end of its input and its own

std::string EndText(int status) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) return "could not be run";
  if (WIFEXITED(status)) return Concat("ended with status ", WEXITSTATUS(status));
  return WIFSIGNALED(status) ? Concat("was ended by signal ", WTERMSIG(status)) : "ended";
}

}  // namespace

FedProgram::FedProgram(const std::vector<std::string>& command, std::string who) : who_(std::move(who)) {
  Start(command);
}

FedProgram::~FedProgram() { CloseInput(); }

void FedProgram::Start(const std::vector<std::string>& command) {
  std::vector<char*> words;  // made before the fork, after which memory may not be allocated
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  int in[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0) return GiveUp(std::strerror(errno));
  pid_ = fork();
  if (pid_ == 0) {
    setpgid(0, 0);  // ctrl-C is for the run, which then ends this one
    dup2(in[0], STDIN_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execvp(words[0], words.data());
    _exit(127);
  }
  close(in[0]);
  to_ = in[1];
  fcntl(to_, F_SETFL, O_NONBLOCK);
  if (pid_ < 0) GiveUp(std::strerror(errno));
}

void FedProgram::Send(const std::string& line) {
  if (to_ < 0) return;
  unsent_ += line + "\n";
  Flush();
  if (unsent_.size() > kMostUnsent) GiveUp("does not read what it is sent");
}

void FedProgram::Flush() {
  while (to_ >= 0 && !unsent_.empty()) {
    const ssize_t count = send(to_, unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count >= 0) {
      unsent_.erase(0, static_cast<size_t>(count));
      continue;
    }
    int status = 0;
    GiveUp(Reap(kSecondsToDie, status) ? EndText(status) : "closed its input");
  }
}

bool FedProgram::Reap(double seconds, int& status) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (pid_ > 0) {
    const pid_t found = waitpid(pid_, &status, WNOHANG);
    if (found != 0) pid_ = -1;
    if (found == 0 && Clock::now() >= end) return false;
    if (found == 0) usleep(10000);
  }
  return true;
}

void FedProgram::CloseInput() {
  if (to_ >= 0) close(to_);
  to_ = -1;
}

void FedProgram::GiveUp(const std::string& why) {
  CloseInput();
  TRIREME_LOG(WARNING) << who_ << " " << why
                       << "; it gets no further steps. The run goes on, and log.jsonl has them all";
}

void FedProgram::Finish(double seconds) {
  if (to_ < 0) return;
  const auto start = Clock::now();
  const auto left = [&] { return seconds - SecondsSince(start); };
  while (to_ >= 0 && !unsent_.empty() && left() > 0) {
    pollfd end = {to_, POLLOUT, 0};
    poll(&end, 1, 100);
    Flush();
  }
  if (to_ < 0) return;
  CloseInput();
  int status = 0;
  if (!Reap(left(), status)) {
    TRIREME_LOG(WARNING) << who_ << " has not finished after " << seconds << " s; it is left to finish by itself";
  } else if (status != 0) {
    GiveUp(EndText(status));
  }
}

}  // namespace trireme
