// The operator of docs/extending.md exactly as in the page: its kernel and its reference against the plain
// formula.
#include "ops/relu_squared/relu_squared.h"

#include "ops/operator.h"
#include "tests/ops/compare.h"

namespace trireme {
namespace {

TEST(ReluSquared, IsThePlainFormula) {
  ForEveryVersion([](at::ScalarType type, const std::string& context) {
    Compare({.inputs = {Random({7, 300}, type)},
             .weights = {},
             .op = [](const Tensors& x) { return Tensors{ReluSquared(x[0])}; },
             .plain = [](const Tensors& x, const Tensors&) { return Tensors{x[0].relu().square()}; }},
            context);
  });
}

TEST(ReluSquared, IsInTheList) {
  const auto& list = Operators();
  const auto found =
      std::find_if(list.begin(), list.end(), [](const Operator& op) { return op.name == "relu_squared"; });
  ASSERT_NE(found, list.end());
  EXPECT_EQ(found->report(at::empty({0}))[0].chosen, "ascendc");
}

}  // namespace
}  // namespace trireme
