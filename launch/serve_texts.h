// `trireme serve` of a model that gives vectors, scores or labels of texts instead of writing any: no engine, no KV
// cache; all requests that wait share passes.
#pragma once

#include <string>

#include "core/cli/arguments.h"
#include "core/comm/job.h"
#include "core/config.pb.h"
#include "launch/model_source.h"

namespace trireme {

// Whether the model of this configuration is such a one.
bool GivesTexts(const Config& config);

// Collective; returns when a signal asked for it. directory: what was named as the model, of which the source's may be
// a part.
void ServeTexts(const Arguments& arguments, Config config, const ModelSource& source, const std::string& directory,
                Job& job);

}  // namespace trireme
