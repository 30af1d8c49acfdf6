// What a student's objective needs of its teacher, for the micro batches of a pass.
#pragma once

#include <vector>

#include "parallel/pass/pass_input.h"
#include "train/reference.h"

namespace trireme {

// Runs the teacher forward over the micro batches and puts its hidden states and its head's weight into them, on ranks with
// the head. copies_head: the weight leaves the device after the pass, and is copied. Collective.
void AskTeacher(Reference& teacher, bool copies_head, std::vector<PassInput>& inputs);

}  // namespace trireme
