// Data that an earlier `swift export --to_cached_dataset true` of the same script prepares, as data of the run that
// names it.
#pragma once

#include <vector>

#include "translate/given.h"

namespace trireme {

// Whether the words start such a command.
bool PreparesData(const std::vector<std::string>& words);

// Puts what the preparation says about data in the place of cached_dataset and cached_val_dataset, if all they name was
// prepared in this script.
void TakePreparedData(const std::vector<Given>& preparations, Given& run);

}  // namespace trireme
