#include "train/programs/line_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "core/base/clock.h"
#include "core/base/error.h"

namespace trireme {
namespace {

// How long it must be silent after its answers: what it says then belongs to no question. After its first one longer: a
// program that says too much does so from the start.
constexpr int kFirstSilenceMs = 100, kSilenceMs = 10;

int MillisecondsUntil(Clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30));
}

}  // namespace

void LineProgram::Start() {
  int in[2], out[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0 || pipe2(out, O_CLOEXEC) != 0) {
    throw RuntimeError(who_, " cannot be started: ", std::strerror(errno));
  }
  const char* command = command_.c_str();
  pid_ = fork();
  if (pid_ == 0) {
    setpgid(0, 0);  // so that what it starts ends with it
    dup2(in[0], 0);
    dup2(out[1], 1);
    execl("/bin/sh", "sh", "-c", command, static_cast<char*>(nullptr));
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  to_ = in[1];
  from_ = out[0];
  fcntl(to_, F_SETFL, O_NONBLOCK);
  unread_.clear();
  if (pid_ < 0) throw RuntimeError(who_, " cannot be started: ", std::strerror(errno));
}

void LineProgram::Stop() {
  if (pid_ <= 0) return;
  close(to_);
  close(from_);
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

std::string LineProgram::HowItEnded() {
  int status = 0;
  for (int i = 0; i < 50 && waitpid(pid_, &status, WNOHANG) == 0; ++i) usleep(10000);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) return Concat("could not be run: ", command_);
  if (WIFEXITED(status)) return Concat("ended with status ", WEXITSTATUS(status));
  return WIFSIGNALED(status) ? Concat("was ended by signal ", WTERMSIG(status)) : "closed its output";
}

// Lines beyond those asked for: one of those before was not the answer that it was taken for.
void LineProgram::RefuseExtraLines(int silence_ms) {
  pollfd end = {from_, POLLIN, 0};
  char buffer[256];
  if (unread_.empty() && poll(&end, 1, silence_ms) > 0) {
    unread_.append(buffer, static_cast<size_t>(std::max<ssize_t>(read(from_, buffer, sizeof buffer), 0)));
  }
  if (unread_.empty()) return;
  throw RuntimeError(who_, " answered '", unread_.substr(0, unread_.find('\n')).substr(0, 80),
                     "' without being asked; wanted one line per completion");
}

void LineProgram::Exchange(const std::string& text, size_t wanted, const Call& call,
                           std::vector<std::string>& answers) {
  size_t written = 0;
  while (answers.size() < wanted) {
    pollfd ends[2] = {{from_, POLLIN, 0}, {written < text.size() ? to_ : -1, POLLOUT, 0}};
    const int left = MillisecondsUntil(call.end);
    if (left == 0 || poll(ends, 2, left) == 0) {
      throw RuntimeError(who_, " answered ", answers.size(), " of ", call.lines, " ", asked_, " in ", limit_, " = ",
                         seconds_);
    }
    if (ends[1].revents != 0) {
      const ssize_t count = send(to_, text.data() + written, text.size() - written, MSG_NOSIGNAL);
      if (count < 0 && errno != EAGAIN) throw RuntimeError(who_, " ", HowItEnded());
      written += static_cast<size_t>(std::max<ssize_t>(count, 0));
    }
    if (ends[0].revents == 0) continue;
    char buffer[1 << 16];
    const ssize_t count = read(from_, buffer, sizeof buffer);
    if (count <= 0) throw RuntimeError(who_, " ", HowItEnded());
    unread_.append(buffer, static_cast<size_t>(count));
    for (size_t line = unread_.find('\n'); line != std::string::npos && answers.size() < wanted;
         line = unread_.find('\n')) {
      answers.push_back(unread_.substr(0, line));
      unread_.erase(0, line + 1);
    }
  }
}

std::vector<std::string> LineProgram::Ask(const std::vector<std::string>& lines) {
  const Call call{lines.size(), Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(seconds_ * 1000))};
  const bool fresh = pid_ <= 0;
  said_too_much_late_ = false;
  if (fresh) {
    Start();
  } else {
    said_too_much_late_ = true;  // unless it did not
    RefuseExtraLines(0);
    said_too_much_late_ = false;
  }
  std::vector<std::string> answers;
  const size_t first = fresh ? std::min<size_t>(lines.size(), 1) : 0;
  if (first > 0) {
    Exchange(lines.front() + "\n", first, call, answers);
    RefuseExtraLines(kFirstSilenceMs);
  }
  std::string text;
  for (size_t i = first; i < lines.size(); ++i) text += lines[i] + "\n";
  Exchange(text, lines.size(), call, answers);
  RefuseExtraLines(kSilenceMs);
  return answers;
}

}  // namespace trireme
