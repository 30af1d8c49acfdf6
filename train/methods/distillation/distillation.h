// Distillation: a student learns its teacher's distribution over the tokens of answers, the data's, its own or the
// teacher's: the method of stage gkd. Steps are those of policy training, without rewards.
#pragma once

#include <memory>

#include "core/config.pb.h"
#include "train/methods/method.h"
#include "train/methods/policy/policy.h"

namespace trireme {

std::unique_ptr<Method> MakeDistillationMethod(const Config& config);

// The student's passes then follow their reference as a teacher. The trainer's session is the student's.
void FollowReference(PolicyPass& pass, Trainer& trainer);

}  // namespace trireme
