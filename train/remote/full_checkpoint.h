// What remote training in full saves of its model: a Hugging Face directory, and beside it in `state` a checkpoint as
// runs have them, with masters and moments, which any layout loads. Whoever asks gives a directory that nobody sees
// until it is whole.
#pragma once

#include <filesystem>

#include "train/step/trainer.h"

namespace trireme {

inline constexpr char kStateFolder[] = "state";

// Into an empty directory that all ranks see; without `optimizer` the Hugging Face files alone. Collective; a failure
// is an input error, the same on every rank.
void SaveFullModel(Trainer& trainer, const std::filesystem::path& directory, bool optimizer);
// Everything is verified before anything changes. Without `optimizer` moments and steps start anew.
void LoadFullModel(Trainer& trainer, const std::filesystem::path& directory, bool optimizer);

}  // namespace trireme
