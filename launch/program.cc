// What every Trireme program does around its commands: joins the job, runs one, and is the only place that
// catches errors. A rank that merely exits leaves the others in a collective, so a failure ends the whole
// job.
#include "launch/program.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/problems.h"
#include "core/base/process.h"
#include "core/cli/parse.h"
#include "core/comm/job.h"
#include "launch/version.h"

namespace trireme {
namespace {

// Time for the rank that failed first, or for rank 0, to report and to end the job before this one does.
constexpr std::chrono::seconds kLetOthersSpeak{2};

// Of an error that may have several lines of its own.
std::string PrintableLines(const std::string& text) {
  std::istringstream lines(text);
  std::string shown;
  for (std::string line; std::getline(lines, line);) shown += (shown.empty() ? "" : "\n") + Printable(line);
  return shown;
}

// Normally all ranks have the same input, hence the same error, and rank 0 prints it for all. Another rank
// that is still alive after the wait has a different error.
void ReportInputError(const Error& error, const Job& job) {
  if (job.rank() != 0) std::this_thread::sleep_for(kLetOthersSpeak);
  const auto* several = dynamic_cast<const InputErrors*>(&error);
  std::string text;
  for (std::string line : several != nullptr ? several->lines() : std::vector<std::string>{error.what()}) {
    std::replace(line.begin(), line.end(), '\n', ' ');                              // quoted input may contain newlines
    text += Concat(job.rank() == 0 ? "" : LogRankPrefix(), Printable(line), "\n");  // and terminal controls
  }
  std::cerr << text << std::flush;
}

[[noreturn]] void Fail(const Error& error, Job& job) {
  if (error.kind() == ErrorKind::kInput) {
    ReportInputError(error, job);
  } else {
    if (error.kind() == ErrorKind::kRemote) std::this_thread::sleep_for(kLetOthersSpeak);
    TRIREME_LOG(ERROR) << PrintableLines(error.what());
  }
  job.Abort(error.exit_status());
}

void RunInJob(const std::function<void(Job&)>& work) {
  Job job;
  SetLogRank(job.rank());
  try {
    work(job);
    job.Finish();
  } catch (const Error& error) {
    Fail(error, job);
  } catch (const std::exception& error) {
    Fail(RuntimeError("unexpected: ", error.what()), job);
  }
}

}  // namespace

void RunCommand(const std::vector<Command>& commands, const std::vector<std::string>& words, Job& job) {
  const Invocation invocation = ParseCommandLine(commands, words, VersionText());
  if (invocation.command != nullptr) {
    invocation.command->run(invocation.arguments, job);
  } else if (job.rank() == 0) {
    std::cout << invocation.text;
  }
  if (!std::cout.flush()) throw RuntimeError("stdout cannot be written; is the disk full or the reader gone?");
}

int RunAsProgram(const std::function<void(Job&)>& work) {
  FailWritesBeyondFileLimit();
  try {
    RunInJob(work);
    return 0;
  } catch (const Error& error) {  // joining failed: there is no job to end
    TRIREME_LOG(ERROR) << PrintableLines(error.what());
    return error.exit_status();
  } catch (const std::exception& error) {
    TRIREME_LOG(ERROR) << PrintableLines(error.what());
    return 1;
  }
}

int RunProgram(const std::vector<Command>& commands, const std::vector<std::string>& words) {
  return RunAsProgram([&](Job& job) { RunCommand(commands, words, job); });
}

}  // namespace trireme
