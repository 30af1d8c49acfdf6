// The numbers of a logged step that are drawn as curves, by their tags: the same in TensorBoard and in every service.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "train/report/logged_step.h"

namespace trireme {

// "train/loss", "speed/mfu", "eval/loss", …, in the order in which they are written.
std::vector<std::pair<std::string, double>> CurvesOf(const LoggedStep& step);

}  // namespace trireme
