// Drawings: the text exactly, the SVG by its elements.
#include "parallel/schedule/draw.h"

#include <gtest/gtest.h>

#include "parallel/schedule/schedules.h"

namespace trireme {
namespace {

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(DrawText, OneFOneB) {
  EXPECT_EQ(DrawText(Simulate(MakeSchedule("1f1b", {2, 2, 1}, 0), {})),
            "1f1b, 2 ranks, 2 micro batches\n"
            "rank 0  |F0 F1 .  .  B0 -  .  B1 -  \n"
            "rank 1  |.  F0 B0 -  F1 B1 -  .  .  \n"
            "rank 0   bubble 33.3 %, at most 2 live\n"
            "rank 1   bubble 33.3 %, at most 1 live\n");
}

TEST(DrawText, NamesTheChunkIfThereAreSeveral) {
  const std::string text = DrawText(Simulate(MakeSchedule("dualpipev", {1, 1, 2}, 0), {}));
  EXPECT_NE(text.find("|F0.0 F0.1 I0.1 I0.0 W0.1 W0.0 \n"), std::string::npos) << text;
}

TEST(DrawText, UnitIsTheShortestAction) {
  const Durations durations{.forward = 2, .backward_input = 1, .backward_weight = 1};
  const std::string text = DrawText(Simulate(MakeSchedule("zero_bubble", {1, 1, 1}, 0), durations));
  EXPECT_NE(text.find("|F0 -  I0 W0 \n"), std::string::npos) << text;
}

TEST(DrawSvg, HasABoxForEachActionAndALegend) {
  const std::string svg = DrawSvg(Simulate(MakeSchedule("zero_bubble", {2, 3, 1}, 0), {}));
  EXPECT_EQ(svg.rfind("<svg ", 0), 0u);
  EXPECT_EQ(svg.substr(svg.size() - 7), "</svg>\n");
  EXPECT_EQ(Count(svg, "class=\"cell\""), 2 * 3 * 3);
  EXPECT_EQ(Count(svg, ">W2<"), 2);
  for (const char* meaning : {"F forward", "B both gradients", "I input gradient", "W weight gradient"}) {
    EXPECT_EQ(Count(svg, std::string(">") + meaning + "<"), 1) << meaning;
  }
  EXPECT_EQ(Count(svg, "<text"), Count(svg, "</text>"));
  EXPECT_EQ(Count(svg, ">rank 1<"), 1);
  EXPECT_EQ(Count(svg, "odd chunks are darker"), 0);
}

TEST(DrawSvg, TheLegendHasBothShadesWhereARankHasChunks) {
  const std::string svg = DrawSvg(Simulate(MakeSchedule("dualpipev", {2, 4, 2}, 0), {}));
  EXPECT_EQ(Count(svg, "F3.1: micro batch 3, chunk 1; odd chunks are darker"), 1);
  const std::string legend = svg.substr(0, svg.find(">rank 0<"));
  for (const char* shade : {"#6baed6", "#f58a3c", "#fbb568", "#93d18c"}) EXPECT_EQ(Count(legend, shade), 1) << shade;
}

}  // namespace
}  // namespace trireme
