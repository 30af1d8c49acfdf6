#include "generation/beam_generator.h"

#include <map>
#include <utility>

#include "core/base/error.h"

namespace trireme {
namespace {

// The most likely next tokens of each prompt followed by each of its search's hypotheses: a row of one token each.
std::vector<std::vector<TokenLogProb>> LikeliestAfter(Engine& engine, const std::vector<int64_t>& prompt,
                                                      const BeamSearch& search, int64_t count,
                                                      std::map<int64_t, std::pair<size_t, size_t>>& place_of,
                                                      size_t index, const PromptImages& images) {
  for (size_t i = 0; i < search.running().size(); ++i) {
    EngineRow row{.prompt = prompt, .top = count, .images = images};
    row.images.within = std::ssize(prompt);  // what a hypothesis adds is text, whatever its tokens are
    const std::vector<int64_t>& tokens = search.running()[i].tokens;
    row.prompt.insert(row.prompt.end(), tokens.begin(), tokens.end());
    place_of[engine.Add(std::move(row))] = {index, i};
  }
  return std::vector<std::vector<TokenLogProb>>(search.running().size());
}

}  // namespace

std::vector<std::vector<int64_t>> SearchBeams(Session& session, const std::vector<std::vector<int64_t>>& prompts,
                                              const std::vector<BeamOptions>& options,
                                              const GenerationOptions& generation, GenerationTimes& times,
                                              const std::vector<PromptImages>& images) {
  TRIREME_CHECK(prompts.size() == options.size() && (images.empty() || images.size() == prompts.size()));
  Engine engine(session, {.max_rows = generation.batch,
                          .max_batched_tokens = generation.max_batched_tokens,
                          .max_total_tokens = generation.max_total_tokens});
  std::vector<BeamSearch> searches(options.begin(), options.end());
  for (bool goes_on = true; goes_on;) {
    std::map<int64_t, std::pair<size_t, size_t>> place_of;  // by the engine's row: prompt and hypothesis
    std::vector<std::vector<std::vector<TokenLogProb>>> likeliest(prompts.size());
    for (size_t i = 0; i < prompts.size(); ++i) {
      if (searches[i].done()) continue;
      likeliest[i] = LikeliestAfter(engine, prompts[i], searches[i], BeamCandidates(options[i]), place_of, i,
                                    images.empty() ? PromptImages() : images[i]);
    }
    while (!engine.idle()) {
      for (NewToken& fresh : engine.Step()) {
        const auto [prompt, hypothesis] = place_of.at(fresh.row);
        fresh.log_probs.erase(fresh.log_probs.begin());  // the sampled token's
        likeliest[prompt][hypothesis] = std::move(fresh.log_probs);
        engine.End(fresh.row);
      }
    }
    goes_on = false;
    for (size_t i = 0; i < prompts.size(); ++i) {
      if (!searches[i].done()) searches[i].Advance(likeliest[i]);
      goes_on = goes_on || !searches[i].done();
    }
  }
  times = engine.times();
  std::vector<std::vector<int64_t>> found;
  for (const BeamSearch& search : searches) found.push_back(search.best());
  return found;
}

}  // namespace trireme
