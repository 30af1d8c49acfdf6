// A user's Python over the answers of an evaluation: what it is given, its numbers' names, and how a wrong one is
// named. The forms of functions are tests/scripts/metrics_test's.
#include "train/evaluation/answer_metrics.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "core/base/error.h"

namespace trireme {
namespace {

class AnswerMetricsTest : public testing::Test {
 protected:
  AnswerMetricsTest() : file_(std::filesystem::temp_directory_path() / Concat("metrics-", getpid(), ".py")) {
    std::ofstream(file_)
        << "import os\n"
           "def given(predictions, references, prompts, finish_reasons, prediction_ids, reference_ids):\n"
           "    assert (predictions, references, prompts) == (['a', 'b'], ['a', 'c'], ['q', 'r'])\n"
           "    assert finish_reasons == ['stop', 'length'] and prediction_ids == [[1, 9], [2]]\n"
           "    return {'right': .5, 'tokens_written': sum(map(len, prediction_ids)), 'ids': reference_ids[1][0]}\n"
           "def count(predictions, references): return len(predictions)\n"
           "def own(predictions, references): return {'rouge-l': 1}\n"
           "def also(predictions, references): return {'count': 1}\n"
           "def few(predictions, references): return [1]\n"
           "def dies(predictions, references): os._exit(7)\n";
  }
  ~AnswerMetricsTest() override { std::filesystem::remove(file_); }

  EvalConfig With(const std::vector<std::string>& functions) const {
    EvalConfig eval;
    for (const std::string& function : functions) eval.add_metrics(Concat("python:", file_.string(), ":", function));
    return eval;
  }
  static std::string ErrorOf(const std::function<void()>& act) {
    try {
      act();
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  }
  std::string FailureOf(const std::vector<std::string>& functions) const {
    return ErrorOf([&] { AnswerMetrics(With(functions)).Of(answers_); });
  }

  const std::filesystem::path file_;
  const std::vector<Prediction> answers_ = {{"q", "a", "a", "stop", {1, 9}, {1, 9}},
                                            {"r", "b", "c", "length", {2}, {3}}};
};

TEST_F(AnswerMetricsTest, HaveTheAnswersAndNameTheirNumbers) {
  AnswerMetrics metrics(With({"given", "count"}));
  for (int evaluation = 0; evaluation < 2; ++evaluation) {
    const std::map<std::string, double> wanted = {{"right", .5}, {"tokens_written", 3}, {"ids", 3}, {"count", 2}};
    EXPECT_EQ(metrics.Of(answers_), wanted);
  }
}

TEST_F(AnswerMetricsTest, NeedAFileAndAFunctionOfIt) {
  EvalConfig eval;
  eval.add_metrics("bleu");
  EXPECT_EQ(ErrorOf([&] { AnswerMetrics{eval}; }), "eval.metrics has 'bleu'; wanted python:FILE.py:FUNCTION");
  for (const char* target : {"python:", "python::", "python:metrics.py", "python:metrics.py:", "python::f"}) {
    eval.set_metrics(0, target);
    EXPECT_THROW(AnswerMetrics{eval}, Error) << target;
  }
  const std::string missing = ErrorOf([&] { CheckMetricCode(With({"count", "none"})); });
  EXPECT_EQ(missing.find(Concat("eval.metrics: the metric none of ", file_.string(), " is not in ")), 0U) << missing;
  EXPECT_NO_THROW(CheckMetricCode(With({"count"})));
  EXPECT_NO_THROW(CheckMetricCode(EvalConfig()));
}

TEST_F(AnswerMetricsTest, AreNamedWhereTheyFail) {
  const std::string of = Concat(" of ", file_.string());
  EXPECT_EQ(
      FailureOf({"few"}),
      Concat("the metric few", of, " returned 1 values for 'few' and 2 answers; wanted a number, or one per answer"));
  EXPECT_NE(FailureOf({"dies"}).find("ended with status 7"), std::string::npos) << FailureOf({"dies"});
  EXPECT_EQ(FailureOf({"own"}),
            Concat("the metric own", of, " returned 'rouge-l', which an evaluation has already; give it another name"));
  EXPECT_EQ(FailureOf({"count", "also"}),
            Concat("the metric also", of,
                   " returned 'count', which another of eval.metrics has returned; give it another name"));
}

}  // namespace
}  // namespace trireme
