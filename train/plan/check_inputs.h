// Checks what a run reads besides the model before anything starts: data files, tokenizer, chat
// template, every record. Reports all problems, not only the first. No torch.
#pragma once

#include <cstdint>

#include "core/base/problems.h"
#include "core/config.pb.h"

namespace trireme {

// Checks that the files named in data.train, data.valid and data.template exist, and the tokenizer and the
// chat template that their records need. Quick: reads only the first readable record of each file.
void CheckDataTools(const Config& config, Problems& problems);

// Reads and tokenizes all data as the run would, into its cache. An input error names every broken record, up
// to a few per file. Does nothing if data.train is empty: a plan needs no data.
void CheckData(const Config& config, int64_t vocabulary);

}  // namespace trireme
