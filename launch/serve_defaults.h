// What `trireme serve` samples with where a request says nothing: options of the command, and before them the model's
// generation_config.json, if that is asked for. Requests have the last word; their own limits are in serve/.
#pragma once

#include <string>
#include <vector>

#include "core/cli/arguments.h"
#include "core/cli/command.h"
#include "serve/generation_defaults.h"

namespace trireme {

std::vector<Option> DefaultsOptions();

// `directory` is the model's.
GenerationDefaults DefaultsOf(const Arguments& arguments, const std::string& directory);

}  // namespace trireme
