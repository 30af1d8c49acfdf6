// The options of `trireme generate` about beam search. The search is generation/beam_search.h.
#pragma once

#include <optional>
#include <vector>

#include "core/cli/arguments.h"
#include "core/cli/command.h"
#include "generation/beam_search.h"

namespace trireme {

std::vector<Option> BeamCommandOptions();

// Of --beams, --length-penalty and --early-stopping, without ends and lengths; nullopt: no beams. Refuses what has no
// meaning beside them.
std::optional<BeamOptions> BeamOptionsOf(const Arguments& arguments);

// A model of few tokens has no continuations for many beams.
void CheckBeams(const BeamOptions& options, int64_t vocabulary);

}  // namespace trireme
