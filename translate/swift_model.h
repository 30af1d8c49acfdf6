// What ms-swift says of a model and of its parts: rotary embedding, image processor, frozen and adapted parts, packed
// weights.
#pragma once

#include "translate/given.h"
#include "translate/translation.h"

namespace trireme {

// rope_scaling: a kind, or a mapping.
void SetRope(const Setting& setting, Translation& result);
// model_kwargs: settings of the image processor; others belong to models that are not read here.
void SetProcessor(const Setting& setting, Translation& result);
// What depends on several settings.
void FinishSwiftModel(const Given& given, Translation& result);

}  // namespace trireme
