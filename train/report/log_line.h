// A logged step as one JSON object: a line of log.jsonl, and of stdout with --report json.
#pragma once

#include "core/base/json.h"
#include "train/report/logged_step.h"

namespace trireme {

Json LogLineOf(const LoggedStep& step);

}  // namespace trireme
