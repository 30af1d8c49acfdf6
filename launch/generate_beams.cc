#include "launch/generate_beams.h"

#include <string>

#include "core/base/error.h"

namespace trireme {
namespace {

EarlyStopping EarlyStoppingOf(const std::string& word) {
  if (word == "true") return EarlyStopping::kFull;
  if (word == "false") return EarlyStopping::kHeuristic;
  if (word == "never") return EarlyStopping::kNever;
  throw InputError("--early-stopping ", word, ": wanted true, false or never");
}

}  // namespace

std::vector<Option> BeamCommandOptions() {
  return {{.name = "beams",
           .value_name = "N",
           .help = "beam search with this many hypotheses, of which the best is printed; by default 1: none"},
          {.name = "length-penalty",
           .value_name = "F",
           .help = "beams: a score is the sum of log-probabilities over the number of new tokens to this power; above "
                   "0 it favours longer "
                   "answers; by default 1"},
          {.name = "early-stopping",
           .value_name = "WORD",
           .help = "beams: true: end when as many hypotheses as beams are finished; false: when those that go on are "
                   "no better; never: when "
                   "they could not become so; by default false"}};
}

std::optional<BeamOptions> BeamOptionsOf(const Arguments& arguments) {
  const int64_t beams = arguments.integer("beams", 1, 1);
  if (beams == 1) {
    for (const char* name : {"length-penalty", "early-stopping"}) {
      if (arguments.has(name)) throw InputError("--", name, " is of beam search; add --beams N with N above 1");
    }
    return std::nullopt;
  }
  // What samples, what prints before the end is known, and what changes or cuts single hypotheses.
  for (const char* name : {"n", "temperature", "top-k", "top-p", "min-p", "repetition-penalty", "presence-penalty",
                           "frequency-penalty", "seed", "stop", "stream", "chat"}) {
    if (arguments.has(name))
      throw InputError("--", name, " with --beams ", beams, ": beam search does not take it; leave out one of them");
  }
  constexpr double kLeast = -100;  // shorter answers
  return BeamOptions{.beams = beams,
                     .length_penalty = arguments.number("length-penalty", 1, kLeast),
                     .early_stopping = EarlyStoppingOf(arguments.value("early-stopping", "false"))};
}

void CheckBeams(const BeamOptions& options, int64_t vocabulary) {
  if (BeamCandidates(options) <= vocabulary) return;
  throw InputError("--beams ", options.beams, " needs ", BeamCandidates(options),
                   " continuations of each, and the model has ", vocabulary, " tokens; take fewer beams");
}

}  // namespace trireme
