// The lists of operators: what they report is what runs, each switch turns off only its own operator, and
// docs/kernels.md contains the table generated from them. Whether an implementation is correct is tested with
// each operator.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <map>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "ops/operator.h"
#include "ops/operator_report.h"
#include "ops/switches.h"

namespace trireme {
namespace {

constexpr BenchSize kSmall{8, 768, at::kFloat};

void Run(const BenchCase& c) {
  const BenchCase::Tensors results = c.run();
  if (results.empty() || !results[0].requires_grad()) return;
  BenchCase::Tensors gradients;
  for (const at::Tensor& result : results) gradients.push_back(at::ones_like(result));
  torch::autograd::backward(results, gradients);
}

std::string ChosenIn(const Operator& op, const BenchSize& size) {
  const ChoiceRecord record;
  for (const BenchCase& c : op.bench(size)) Run(c);
  return record.ChosenFor(op.name);
}

TEST(Operators, AreSortedByName) {
  ASSERT_EQ(Operators().size(), OperatorNames().size());
  for (size_t i = 0; i < Operators().size(); ++i) {
    const Operator& op = Operators()[i];
    EXPECT_EQ(op.name, OperatorNames()[i]);
    EXPECT_NE(op.summary, "") << op.name;
    EXPECT_GE(op.implementations.size(), 2u) << op.name;
    EXPECT_EQ(op.implementations.back(), "aten") << op.name;
  }
}

TEST(Operators, WhatIsReportedRuns) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const at::Tensor like = at::empty({0}, type);
    for (const Operator& op : Operators()) {
      const std::vector<CaseReport> report = op.report(like);
      if (report.empty()) {
        EXPECT_NE(type, at::kFloat) << op.name;
        continue;
      }
      EXPECT_EQ(ChosenIn(op, {8, 768, type}), report[0].chosen) << op.name << " " << c10::toString(type);
    }
  }
}

TEST(Operators, AreSelectedByName) {
  const at::Tensor like = at::empty({0});
  for (const Operator& op : Operators()) {
    for (const std::string& name : op.implementations) {
      const OnlyImplementation asked(name);
      const CaseReport report = op.report(like)[0];
      EXPECT_TRUE(report.chosen == name || report.chosen == "aten") << op.name << " " << report.chosen;
      EXPECT_EQ(ChosenIn(op, kSmall), report.chosen) << op.name << " " << name;
    }
  }
  const OnlyImplementation kernels("ascendc");
  EXPECT_EQ(ChosenIn(Operators()[0], kSmall), "ascendc");
}

TEST(Operators, ASwitchTurnsOffOnlyItsOwnOperator) {
  const auto chosen = [] {
    std::map<std::string, std::string> found;
    for (const OperatorReport& line : ReportOperators("cpu"))
      found[Concat(line.op, " ", line.dtype, " ", line.shape)] = line.impl;
    for (const Operator& op : Operators()) found[op.name] = ChosenIn(op, kSmall);
    return found;
  };
  const std::map<std::string, std::string> before = chosen();
  for (const std::string& off : OperatorNames()) {
    TurnOperatorsOff({off});
    for (const auto& [what, implementation] : chosen()) {
      const bool its_own = what == off || what.starts_with(off + " ");
      EXPECT_EQ(implementation, its_own ? "aten" : before.at(what)) << what << " with " << off << " off";
    }
    TurnOperatorsOff({});
  }
}

TEST(Operators, AnUnknownNameIsRefusedWithTheNearest) {
  try {
    TurnOperatorsOff({"atention"});
    FAIL() << "the unknown name was accepted";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("unknown operator 'atention'; did you mean attention?"), std::string::npos) << text;
    EXPECT_NE(text.find("adamw"), std::string::npos) << text;
  }
}

// The operators and their lists in Markdown.
std::string OperatorTable() {
  std::string table = "| operator | computes | implementations, fastest first |\n|---|---|---|\n";
  for (const Operator& op : Operators()) {
    std::string summary;  // escaped for a cell
    for (const char c : op.summary) summary += c == '|' ? "\\|" : std::string(1, c);
    table += Concat("| `", op.name, "` | ", summary, " | ", Join(op.implementations), " |\n");
  }
  return table;
}

TEST(Operators, ThePageHasTheirTable) {
  EXPECT_NE(ReadTextFile(KERNELS_PAGE).find("\n\n" + OperatorTable() + "\n"), std::string::npos)
      << "docs/kernels.md needs this table:\n"
      << OperatorTable();
}

}  // namespace
}  // namespace trireme
