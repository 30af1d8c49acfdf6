// The arguments of a Megatron run that a checkpoint which is to be written carries, its `args`: the model's shape, out
// of config.json and the tensors that there are, and the layout. Pickled, as an argparse.Namespace.
#pragma once

#include <string>

#include "checkpoint/megatron/written_model.h"

namespace trireme {

std::string PickledArguments(const WrittenModel& model, const MegatronExport& options);

}  // namespace trireme
