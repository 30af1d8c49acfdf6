#include "train/rollouts/reward_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/log.h"

namespace trireme {
namespace {

using RewardClock = std::chrono::steady_clock;

std::string QuestionOf(const Judged& one) {
  const Rollout& rollout = *one.rollout;
  Json line = {{"prompt", one.prompt->text.empty() ? Json() : Json(one.prompt->text)},
               {"completion", rollout.completion},
               {"prompt_ids", rollout.prompt_ids},
               {"completion_ids", rollout.completion_ids},
               {"truncated", rollout.truncated},
               {"columns", one.prompt->record}};
  return JsonLine(line) + "\n";
}

double RewardIn(const std::string& line, const std::string& name) {
  const Json answer = TryParseJson(line);
  if (answer.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (answer.is_number() && std::isfinite(answer.get<double>())) return answer.get<double>();
  throw RuntimeError("the reward program ", name, " answered '", line.substr(0, 80),
                     "'; wanted one line per completion with a finite number, or null for none");
}

int MillisecondsUntil(RewardClock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - RewardClock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30));
}

}  // namespace

RewardProgram::~RewardProgram() { Stop(); }

void RewardProgram::Start() {
  int in[2], out[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0 || pipe2(out, O_CLOEXEC) != 0) {
    throw RuntimeError("the reward program ", options_.name, " cannot be started: ", std::strerror(errno));
  }
  const char* command = options_.command.c_str();
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
  if (pid_ < 0) throw RuntimeError("the reward program ", options_.name, " cannot be started: ", std::strerror(errno));
}

void RewardProgram::Stop() {
  if (pid_ <= 0) return;
  close(to_);
  close(from_);
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

std::string RewardProgram::HowItEnded() {
  int status = 0;
  for (int i = 0; i < 50 && waitpid(pid_, &status, WNOHANG) == 0; ++i) usleep(10000);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) return Concat("could not be run: ", options_.command);
  if (WIFEXITED(status)) return Concat("ended with status ", WEXITSTATUS(status));
  return WIFSIGNALED(status) ? Concat("was ended by signal ", WTERMSIG(status)) : "closed its output";
}

// Lines beyond those asked for would be taken for the next sampling's.
void RewardProgram::RefuseExtraLines() {
  pollfd end = {from_, POLLIN, 0};
  char buffer[256];
  if (unread_.empty() && poll(&end, 1, 0) > 0) {
    unread_.append(buffer, static_cast<size_t>(std::max<ssize_t>(read(from_, buffer, sizeof buffer), 0)));
  }
  if (unread_.empty()) return;
  throw RuntimeError("the reward program ", options_.name, " answered '", unread_.substr(0, unread_.find('\n')).substr(0, 80),
                     "' without being asked; wanted one line per completion");
}

std::vector<std::string> RewardProgram::Ask(const std::string& text, size_t lines) {
  const RewardClock::time_point end =
      RewardClock::now() + std::chrono::milliseconds(static_cast<int64_t>(options_.seconds * 1000));
  std::vector<std::string> answers;
  size_t written = 0;
  RefuseExtraLines();
  while (answers.size() < lines) {
    pollfd ends[2] = {{from_, POLLIN, 0}, {written < text.size() ? to_ : -1, POLLOUT, 0}};
    const int left = MillisecondsUntil(end);
    if (left == 0 || poll(ends, 2, left) == 0) {
      throw RuntimeError("the reward program ", options_.name, " answered ", answers.size(), " of ", lines,
                         " completions in rl.reward_seconds = ", options_.seconds);
    }
    if (ends[1].revents != 0) {
      const ssize_t count = send(to_, text.data() + written, text.size() - written, MSG_NOSIGNAL);
      if (count < 0 && errno != EAGAIN) throw RuntimeError("the reward program ", options_.name, " ", HowItEnded());
      written += static_cast<size_t>(std::max<ssize_t>(count, 0));
    }
    if (ends[0].revents == 0) continue;
    char buffer[1 << 16];
    const ssize_t count = read(from_, buffer, sizeof buffer);
    if (count <= 0) throw RuntimeError("the reward program ", options_.name, " ", HowItEnded());
    unread_.append(buffer, static_cast<size_t>(count));
    for (size_t line = unread_.find('\n'); line != std::string::npos && answers.size() < lines; line = unread_.find('\n')) {
      answers.push_back(unread_.substr(0, line));
      unread_.erase(0, line + 1);
    }
  }
  return answers;
}

std::vector<double> RewardProgram::Of(std::span<const Judged> completions) {
  std::string text;
  for (const Judged& one : completions) text += QuestionOf(one);
  for (bool again = false;; again = true) {
    try {
      if (pid_ <= 0) Start();
      std::vector<double> rewards;
      for (const std::string& answer : Ask(text, completions.size())) rewards.push_back(RewardIn(answer, options_.name));
      return rewards;
    } catch (const Error& error) {
      Stop();
      ++failures_;
      if (again && !options_.skip_failures) throw;
      TRIREME_LOG(WARNING) << error.what() << (again ? "; these completions have no reward of it" : "; it is started anew and asked again");
      if (again) return std::vector<double>(completions.size(), std::numeric_limits<double>::quiet_NaN());
    }
  }
}

}  // namespace trireme
