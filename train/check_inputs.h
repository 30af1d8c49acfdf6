// What a run reads beside the model, checked before anything is started: data files, tokenizer, chat
// template, every record. Finds all that is wrong, not only the first. No torch.
#pragma once

#include <cstdint>

#include "core/base/problems.h"
#include "core/config.pb.h"

namespace trireme {

// That the files which data.train, data.valid and data.template name are there, and the tokenizer and the
// chat template that their records want. Quick: looks at the first record of each file that can be read.
void CheckDataTools(const Config& config, Problems& problems);

// Reads and tokenises all data as the run would, into its cache. An input error names every broken record, up
// to a few of each file. Nothing where data.train is empty: a plan may be made without data.
void CheckData(const Config& config, int64_t vocabulary);

}  // namespace trireme
