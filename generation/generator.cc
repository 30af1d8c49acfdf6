#include "generation/generator.h"

#include <map>

#include "core/base/error.h"
#include "session/session.h"

namespace trireme {

Generator::Generator(Session& session) : session_(session) { RefuseUngeneratable(session.config()); }

void Generator::Run(const std::vector<std::vector<int64_t>>& prompts, const GenerationOptions& options,
                    const TakeToken& take, const std::vector<PromptImages>& images) {
  TRIREME_CHECK(images.empty() || images.size() == prompts.size());
  if (!options.keep_cache || !engine_) {
    engine_.emplace(session_, EngineOptions{.max_rows = options.batch,
                                            .max_batched_tokens = options.max_batched_tokens,
                                            .max_total_tokens = options.max_total_tokens});
  }
  const EngineTimes before = engine_->times();
  std::map<int64_t, size_t> prompt_of;  // by the engine's row
  for (size_t i = 0; i < prompts.size(); ++i) {
    prompt_of[engine_->Add({.prompt = prompts[i],
                            .sampling = options.sampling,
                            .stream = static_cast<int64_t>(i),
                            .images = images.empty() ? PromptImages() : images[i]})] = i;
  }
  while (!engine_->idle()) {
    for (const NewToken& fresh : engine_->Step()) {
      if (!take(prompt_of.at(fresh.row), fresh.token)) engine_->End(fresh.row);
    }
  }
  const EngineTimes& after = engine_->times();
  times_.prompt_tokens += after.prompt_tokens - before.prompt_tokens;
  times_.new_tokens += after.new_tokens - before.new_tokens;
  times_.prompt_seconds += after.prompt_seconds - before.prompt_seconds;
  times_.new_seconds += after.new_seconds - before.new_seconds;
  if (!options.keep_cache) engine_.reset();
}

}  // namespace trireme
