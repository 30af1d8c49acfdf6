// The chart of any log, including an empty one.
#include "train/report/loss_chart.h"

#include <gtest/gtest.h>

#include <sstream>

namespace trireme {
namespace {

size_t Count(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

// The points of the first line drawn.
std::vector<std::pair<double, double>> FirstCurve(const std::string& svg) {
  const size_t begin = svg.find("points=\"") + 8;
  std::istringstream text(svg.substr(begin, svg.find('"', begin) - begin));
  std::vector<std::pair<double, double>> places;
  char comma = 0;
  for (double x = 0, y = 0; text >> x >> comma >> y;) places.emplace_back(x, y);
  return places;
}

TEST(LossChart, FallsFromLeftToRight) {
  const auto places = FirstCurve(DrawLossChart({.train = {{1, 4.0}, {2, 3.0}, {3, 2.0}}, .eval = {}}));
  ASSERT_EQ(places.size(), 3u);
  EXPECT_EQ(places.front(), std::make_pair(70.0, 48.0));  // the highest loss is at the top, the first step at the left
  EXPECT_EQ(places.back(), std::make_pair(776.0, 408.0));
  EXPECT_LT(places[0].second, places[1].second);
}

TEST(LossChart, NamesItsAxesAndMarks) {
  const std::string svg = DrawLossChart({.train = {{1, 4.0}, {100, 2.0}}, .eval = {{50, 3.0}, {100, 2.5}}});
  for (const char* text : {">step<", ">loss<", ">3<", ">20<", ">evaluation<"}) {
    EXPECT_EQ(Count(svg, text), 1u) << text;
  }
  EXPECT_EQ(Count(svg, "<circle"), 2u);
}

TEST(LossChart, ManyStepsDoNotEnlargeTheDrawing) {
  LogCurves curves;
  for (int64_t step = 1; step <= 100000; ++step) {
    curves.train.push_back({step, 1.0 / static_cast<double>(step)});
  }
  EXPECT_LE(FirstCurve(DrawLossChart(curves)).size(), 1000u);
}

TEST(LossChart, AnEmptyLogAndOnePointAreDrawnToo) {
  for (const LogCurves& curves : {LogCurves{}, LogCurves{.train = {{7, 2.0}}, .eval = {}}}) {
    const std::string svg = DrawLossChart(curves);
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
    EXPECT_NE(svg.find("</svg>"), std::string::npos);
  }
}

}  // namespace
}  // namespace trireme
