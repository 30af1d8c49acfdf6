// The list of commands: one line each, in the order of --help. launch/NAME.cc defines the function.
#include "launch/commands.h"

// clang-format off
#ifdef TRIREME_TORCH_VERSION
#define TRIREME_TORCH_COMMANDS(COMMAND) \
  COMMAND(EvaluateCommand)        \
  COMMAND(GradsCommand)           \
  COMMAND(GenerateCommand)        \
  COMMAND(ServeCommand)           \
  COMMAND(BoardCommand)           \
  COMMAND(ScoreCommand)           \
  COMMAND(CalibrateCommand)       \
  COMMAND(BenchCheckpointCommand) \
  COMMAND(BenchStepCommand)       \
  COMMAND(BenchGenerateCommand)   \
  COMMAND(BenchOpsCommand)
#else
#define TRIREME_TORCH_COMMANDS(COMMAND)
#endif

#define TRIREME_COMMANDS(COMMAND) \
  COMMAND(CheckCommand)           \
  COMMAND(PlanCommand)            \
  COMMAND(SimulateCommand)        \
  COMMAND(TrainCommand)           \
  TRIREME_TORCH_COMMANDS(COMMAND) \
  COMMAND(ConvertCommand)         \
  COMMAND(MergeCommand)           \
  COMMAND(PushCommand)            \
  COMMAND(TokenizeCommand)        \
  COMMAND(TranslateCommand)       \
  COMMAND(TokenizerCommand)       \
  COMMAND(InspectCommand)         \
  COMMAND(BenchCommCommand)
// clang-format on

namespace trireme {

#define DECLARE(function) Command function();
TRIREME_COMMANDS(DECLARE)

#define CALL(function) function(),
const std::vector<Command>& Commands() {
  static const std::vector<Command> commands = {TRIREME_COMMANDS(CALL)};
  return commands;
}

}  // namespace trireme
