// PythonWorker: a user's Python function in a process of its own, python/trireme/worker.py, which is sent one question
// as one line and answers with one. What forms a function may have, and what is wrong with one, is the worker's to say;
// what questions and answers mean is up to the caller. No torch.
#pragma once

#include <string>
#include <string_view>

#include "core/base/json.h"
#include "train/programs/line_program.h"

namespace trireme {

struct PythonWorkerOptions {
  std::string kind;    // what the function is for, as the worker knows it: "reward", "metric"
  std::string target;  // FILE.py:FUNCTION
  std::string key;     // the key that names it, in errors
  double seconds = 60;
  std::string asked;                        // what a question is about, in errors: "samplings"
  std::string limit = "rl.reward_seconds";  // what seconds are called there
};

class PythonWorker {
 public:
  // Refuses a target that is not FILE.py:FUNCTION.
  explicit PythonWorker(const PythonWorkerOptions& options);

  // "the metric f of file.py", which begins its errors.
  const std::string& who() const { return program_.who(); }
  // What its answer has under this name. What the worker says is wrong is an error, as dying and hanging are.
  Json Ask(const Json& question, const std::string& wanted);
  bool said_too_much_late() const { return program_.said_too_much_late(); }
  // It is started anew when it is asked again.
  void Stop() { program_.Stop(); }

 private:
  LineProgram program_;
};

// FILE.py:FUNCTION of python:FILE.py:FUNCTION; empty for what is something else.
std::string PythonTargetIn(const std::string& name);
// "f" of python:FILE.py:f; empty for what is something else.
std::string PythonFunctionIn(const std::string& name);

}  // namespace trireme
