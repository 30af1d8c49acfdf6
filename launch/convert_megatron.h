// `--from megatron` and `--to-megatron` of `trireme convert`: which words say that a directory is a Megatron
// checkpoint, and which options a written one has.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "checkpoint/hf_directory.h"
#include "core/cli/command.h"
#include "core/comm/job.h"
#include "core/plan/dtype.h"

namespace trireme {

std::vector<Option> MegatronOptions();
// DIR of `--from DIR` or of `--from megatron DIR`, which must be what the word says.
std::filesystem::path ConvertSource(const Arguments& arguments);
// Refuses options of a written Megatron checkpoint where none is written.
void RefuseLoneMegatronOptions(const Arguments& arguments);

void ConvertToMegatron(const Arguments& arguments, const HfDirectory& source, std::optional<DType> dtype, Job& job);

}  // namespace trireme
