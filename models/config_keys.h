// Keys of a config.json that change nothing of what a model computes from its tokens and weights. Everything else is
// read by the families or refused. tests/parity/config_keys_test.py changes each key and holds this list against
// transformers.
#pragma once

#include <string_view>

namespace trireme {

bool IsWithoutEffect(std::string_view key);

}  // namespace trireme
