#include "cost/assumptions.h"

#include <sstream>

#include "core/base/error.h"

namespace trireme {
namespace {

struct Share {
  const char* name;
  double Assumptions::* at;
  double least, most;
};

constexpr Share kShares[] = {{"tensor_overlap", &Assumptions::tensor_overlap, 0, 1},
                             {"expert_overlap", &Assumptions::expert_overlap, 0, 1},
                             {"data_overlap", &Assumptions::data_overlap, 0, 1},
                             {"imbalance", &Assumptions::imbalance, 1, 1000},
                             {"gradient_bytes", &Assumptions::gradient_bytes, 1, 8}};

struct Choice {
  const char* name;
  const char* other;  // the value that turns it
  const char* usual;  // the default's
  bool Assumptions::* at;
  bool turned;
};

constexpr Choice kChoices[] = {{"precision", "fp8", "bf16", &Assumptions::fp8, true},
                               {"attention", "unfused", "fused", &Assumptions::fused_attention, false},
                               {"elementwise", "eager", "fused", &Assumptions::fused_rest, false},
                               {"logits", "whole", "chunked", &Assumptions::chunked_logits, false},
                               {"selective", "matmuls", "operators", &Assumptions::saves_operators, false}};

bool TakeNumber(Assumptions& taken, const std::string& name, const std::string& text) {
  for (const Share& share : kShares) {
    if (name != share.name) continue;
    std::istringstream in(text);
    double value = 0;
    if (!(in >> value) || !(in >> std::ws).eof() || value < share.least || value > share.most) {
      throw InputError("--assume ", name, "=", text, "; wanted a number from ", share.least, " to ", share.most);
    }
    taken.*share.at = value;
    return true;
  }
  return false;
}

bool TakeChoice(Assumptions& taken, const std::string& name, const std::string& text) {
  for (const Choice& choice : kChoices) {
    if (name != choice.name) continue;
    if (text != choice.other && text != choice.usual) {
      throw InputError("--assume ", name, "=", text, "; wanted ", choice.usual, " or ", choice.other);
    }
    taken.*choice.at = (text == choice.other) == choice.turned;
    return true;
  }
  return false;
}

}  // namespace

Assumptions ParseAssumptions(const std::vector<std::string>& items) {
  Assumptions taken;
  for (const std::string& item : items) {
    const size_t equals = item.find('=');
    const std::string name = item.substr(0, equals), text = equals == std::string::npos ? "" : item.substr(equals + 1);
    if (TakeNumber(taken, name, text) || TakeChoice(taken, name, text)) continue;
    throw InputError("--assume ", item, ": unknown; known: ", AssumptionNames());
  }
  return taken;
}

std::string AssumptionNames() {
  std::string text;
  for (const Choice& choice : kChoices) text += Concat(choice.name, "=", choice.usual, "|", choice.other, ", ");
  for (const Share& share : kShares) text += Concat(share.name, "=", share.least, "-", share.most, ", ");
  return text.substr(0, text.size() - 2);
}

}  // namespace trireme
