#include "serve/tinker/fair_turns.h"

#include <algorithm>

namespace trireme::tinker {

double FairTurns::Shares::StartOf(const std::string& flow) const {
  const auto found = ends_.find(flow);
  return found == ends_.end() ? now_ : std::max(now_, found->second);
}

void FairTurns::Shares::Charge(const std::string& flow, int64_t tokens) {
  now_ = StartOf(flow);
  ends_[flow] = now_ + static_cast<double>(std::max<int64_t>(tokens, 1));
  std::erase_if(ends_, [&](const auto& entry) { return entry.second <= now_; });
}

size_t FairTurns::Choose(const std::vector<Turn>& ready) {
  const auto before = [&](const Turn& a, const Turn& b) {
    const double owner_a = owners_.StartOf(a.owner), owner_b = owners_.StartOf(b.owner);
    if (owner_a != owner_b) return owner_a < owner_b;
    if (a.owner != b.owner) return a.owner < b.owner;
    const Shares& models = models_[a.owner];
    const double model_a = models.StartOf(a.model), model_b = models.StartOf(b.model);
    return model_a != model_b ? model_a < model_b : a.model < b.model;
  };
  const auto first = std::ranges::min_element(ready, before);
  owners_.Charge(first->owner, first->tokens);
  models_[first->owner].Charge(first->model, first->tokens);
  // Owners come and go; what one without work had among its models is forgotten.
  std::erase_if(models_,
                [&](const auto& entry) { return std::ranges::find(ready, entry.first, &Turn::owner) == ready.end(); });
  return static_cast<size_t>(first - ready.begin());
}

}  // namespace trireme::tinker
