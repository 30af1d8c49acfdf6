// Keys whose default depends on the stage, as config.proto states it (schema.stage_default): known only when the whole
// configuration has been read. Nothing here knows a key by name.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>

#include "core/config.pb.h"

namespace trireme {

// Makes them unset, for FillStageDefaults to see which of them were given.
void ClearStageDefaults(Config& config);
// Sets those that are unset: as in `earlier` if there is one, otherwise to the default of the configuration's stage.
void FillStageDefaults(Config& config, const Config* earlier = nullptr);

// "true; in stages sft and dpo false" for manuals; empty for a key with the same default in every stage.
std::string StageDefaultText(const google::protobuf::FieldDescriptor& field);

}  // namespace trireme
