#include "translate/translate.h"

#include "core/base/error.h"
#include "core/base/problems.h"

namespace trireme {

Translation Translate(const FoundRun& run, const Surroundings& around) {
  Translation result;
  const std::string stage = run.system->stage(run.given);
  result.Set("stage", stage,
             run.given.command.empty() ? run.system->title : Concat(run.system->title, " ", run.given.command));
  if (!result.has("stage")) return result;  // refused: no rule can tell what its options mean
  for (const std::string& note : run.given.notes) result.Warn(run.what, note);
  Apply(run.system->rules(), run.given, stage, result);
  try {
    run.system->finish(run.given, around, stage, result);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput) throw;
    result.Refuse(run.what, error.what());
  }
  result.Finish();
  return result;
}

}  // namespace trireme
