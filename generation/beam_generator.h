// Beam search with a session's model: all prompts at once, the hypotheses of all of them as rows of the engine, which
// find the full blocks of what they have in common in its cache. No torch in this header.
#pragma once

#include <cstdint>
#include <vector>

#include "generation/beam_search.h"
#include "generation/generator.h"

namespace trireme {

// Collective. The new tokens of each prompt's best hypothesis. `options`: one for each prompt; of `generation` only
// what is about batches. images: of each prompt; empty: none has any.
std::vector<std::vector<int64_t>> SearchBeams(Session& session, const std::vector<std::vector<int64_t>>& prompts,
                                              const std::vector<BeamOptions>& options,
                                              const GenerationOptions& generation, GenerationTimes& times,
                                              const std::vector<PromptImages>& images = {});

}  // namespace trireme
