// The schema of RUN.yaml as data for a form: every key with its type, default, choices, comment and where it
// counts. Made from config.proto; knows no key by name.
#pragma once

#include "core/base/json.h"

namespace trireme {

// [{"section", "comment", "keys": [{"key", "type", "wanted", "default", "comment", "scope", "choices": [{"name",
// "comment"}]}]}]
Json SchemaForm();

}  // namespace trireme
