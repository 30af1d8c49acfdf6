// A program whose commands fail, each in its own way, on a given rank: failures that the real program's
// commands cannot provoke. The other ranks wait in a barrier, as they would in training.
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "core/base/error.h"
#include "core/comm/job.h"
#include "launch/program.h"

namespace trireme {
namespace {

bool IsChosen(const Arguments& arguments, const Job& job) {
  return !arguments.has("rank") || arguments.integer("rank", 0) == job.rank();
}

template <typename Failure>
Command Failing(const std::string& name, Failure fail) {
  return {.name = name,
          .summary = "fails",
          .options = {{.name = "rank", .value_name = "R", .help = "the only rank that fails; by default all do"}},
          .run = [fail](const Arguments& arguments, Job& job) {
            if (IsChosen(arguments, job)) fail();
            job.Barrier();
          }};
}

// Rank 1 fails a while after the others have noticed that it does not answer.
Command FailingPeer() {
  return {.name = "peer", .summary = "rank 1 fails, the others because of it", .run = [](const Arguments&, Job& job) {
            if (job.rank() != 1) throw RemoteError("rank 1 is gone");
            std::this_thread::sleep_for(std::chrono::milliseconds(500));
            throw RuntimeError("the device is on fire");
          }};
}

Command Late() {
  return {.name = "late", .summary = "rank 1 comes late to a barrier", .run = [](const Arguments&, Job& job) {
            if (job.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(4));
            job.Barrier();
          }};
}

Command Writing() {
  return {.name = "write",
          .summary = "writes a megabyte",
          .options = {{.name = "to", .value_name = "FILE", .help = "which file"}},
          .run = [](const Arguments& arguments, Job&) {
            const std::string path = arguments.value("to");
            std::ofstream file(path);
            errno = 0;
            file << std::string(1 << 20, 'x') << std::flush;
            if (!file) throw RuntimeError(path, " cannot be written: ", std::strerror(errno));
          }};
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  using namespace trireme;
  const std::vector<Command> commands = {
      Failing("input", [] { throw InputError("a.jsonl:3: wanted text, found 7"); }),
      Failing("runtime", [] { throw RuntimeError("the device is on fire"); }),
      Failing("unexpected", [] { throw std::out_of_range("index 9"); }),
      Failing("bug", [] { TRIREME_CHECK(1 > 2) << "numbers are upside down"; }),
      FailingPeer(),
      Late(),
      Writing(),
  };
  return RunProgram(commands, {argv + 1, argv + argc});
}
