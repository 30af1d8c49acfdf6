// Runs a shell command to completion and returns its output and exit status.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "core/base/error.h"
#include "core/base/file.h"

namespace trireme {

struct ShellResult {
  int status;  // exit status, or 128 + signal
  std::string out;
  std::string err;
};

inline ShellResult RunShell(const std::string& command) {
  const std::string out = Concat(testing::TempDir(), "trireme_shell_", getpid(), ".out");
  const std::string err = Concat(testing::TempDir(), "trireme_shell_", getpid(), ".err");
  const int raw = std::system(Concat("( ", command, " ) >", out, " 2>", err).c_str());
  return {.status = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw),
          .out = ReadTextFile(out),
          .err = ReadTextFile(err)};
}

}  // namespace trireme
