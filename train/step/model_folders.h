// The folders in which a run's checkpoints have models beside its own, each a checkpoint itself.
#pragma once

namespace trireme {

inline constexpr char kReferenceFolder[] = "reference";
inline constexpr char kValueFolder[] = "value_model";

}  // namespace trireme
