// The labels of a classifier: how many there are, and what they are called: by the section retrieval of RUN.yaml and
// the config.json of the model that training starts from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

class RetrievalConfig;  // core/config.pb.h

// In the order of their numbers; LABEL_0, LABEL_1 … where nobody names them, as in transformers. Refuses keys that
// contradict each other, or the head that the model has.
std::vector<std::string> LabelNamesOf(const RetrievalConfig& keys, const std::string& model);

// LABEL_0, LABEL_1 and so on.
std::vector<std::string> NumberedLabels(int64_t count);

// transformers' problem_type.
std::string ProblemTypeOf(const RetrievalConfig& keys);

}  // namespace trireme
