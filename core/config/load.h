// RUN.yaml and --set into a Config, strictly: an unknown key, a key given twice, a wrong type or a value out
// of range is an input error, one line each, all reported at once: "run.yaml:12: parallel.tensr: unknown key;
// did you mean parallel.tensor?". A former name of a key is read as the key
// (former_names.h). Every key of the result is set, those not given to their defaults, some of which depend on the
// stage (stage_defaults.h).
#pragma once

#include <string>
#include <vector>

#include "core/config.pb.h"

namespace trireme {

// `overrides` are the values of --set, applied to the file in order: "parallel.tensor=2", "data.train=[a,
// b]". `earlier`: the configuration of the run that goes on: what it has stays where a default depends on the stage.
Config LoadConfig(const std::string& path, const std::vector<std::string>& overrides = {},
                  const Config* earlier = nullptr);

// As LoadConfig; `name` stands for the file in errors. Empty text: all defaults.
Config ParseConfig(const std::string& text, const std::string& name, const std::vector<std::string>& overrides = {},
                   const Config* earlier = nullptr);

}  // namespace trireme
