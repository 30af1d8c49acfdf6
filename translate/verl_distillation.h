// verl's section `distillation`: a student that learns from a teacher alone is stage gkd here; one that learns from
// rewards, too, is refused.
#pragma once

#include "translate/given.h"
#include "translate/translation.h"

namespace trireme {

bool VerlDistils(const Given& given);
// Teacher and divergence, for the stage gkd.
void SetVerlDistillation(const Given& given, Translation& result);

}  // namespace trireme
