// What ms-swift does with the texts of data: weights of an answer's parts, names put into placeholders.
#pragma once

#include "translate/given.h"
#include "translate/translation.h"

namespace trireme {

// loss_scale: a base strategy and formats of agents with + between them, as swift/loss_scale has them.
void SetLossScale(const Setting& setting, Translation& result);

// model_name and model_author, which replace {{NAME}} and {{AUTHOR}} in self-cognition data.
void SetPlaceholders(const Given& given, Translation& result);

}  // namespace trireme
