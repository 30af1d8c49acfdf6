// Written for light and dark pages alike: it has its own white background.
#include "train/report/loss_chart.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <vector>

#include "core/base/rounding.h"

namespace trireme {
namespace {

using Point = LogCurves::Point;

constexpr double kWidth = 800, kHeight = 460;
constexpr double kLeft = 70, kRight = 24, kTop = 48, kBottom = 52;
constexpr size_t kMostPoints = 1000;  // per line: more would be narrower than a pixel
constexpr const char *kPale = "#9ecae1", *kDark = "#08519c", *kDots = "#e6550d";

struct Range {
  double low = 0, high = 1;
};

// Between 4 and 10 marks at 1, 2 or 5 times a power of ten.
double MarkDistance(const Range& range) {
  const double rough = (range.high - range.low) / 5;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double digit = rough / power;
  return power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
}

Range RangeOf(const std::vector<Point>& a, const std::vector<Point>& b, double (*number)(const Point&)) {
  Range range{0, 0};
  bool any = false;
  for (const auto* points : {&a, &b}) {
    for (const Point& point : *points) {
      const double value = number(point);
      range = any ? Range{std::min(range.low, value), std::max(range.high, value)} : Range{value, value};
      any = true;
    }
  }
  if (range.high - range.low < 1e-9 * std::max(1.0, std::abs(range.high))) {
    range = {range.low - 0.5, range.high + 0.5};
  }
  return range;
}

// Merges neighbours if there are too many points.
std::vector<Point> Thinned(const std::vector<Point>& points) {
  const size_t group = DivideUp(points.size(), kMostPoints);
  if (group <= 1) return points;
  std::vector<Point> thin;
  for (size_t first = 0; first < points.size(); first += group) {
    const size_t last = std::min(first + group, points.size());
    double sum = 0;
    for (size_t i = first; i < last; ++i) sum += points[i].loss;
    thin.push_back({points[last - 1].step, sum / static_cast<double>(last - first)});
  }
  return thin;
}

// An exponential moving average over about a twentieth of the points, unbiased at its start.
std::vector<Point> Smoothed(const std::vector<Point>& points) {
  const double keep = 1 - 1 / std::max(2.0, static_cast<double>(points.size()) / 20);
  std::vector<Point> smooth;
  double sum = 0, weight = 0;
  for (const Point& point : points) {
    sum = keep * sum + (1 - keep) * point.loss;
    weight = keep * weight + (1 - keep);
    smooth.push_back({point.step, sum / weight});
  }
  return smooth;
}

class Chart {
 public:
  explicit Chart(const LogCurves& curves)
      : steps_(RangeOf(curves.train, curves.eval, [](const Point& point) { return static_cast<double>(point.step); })),
        losses_(RangeOf(curves.train, curves.eval, [](const Point& point) { return point.loss; })) {
    svg_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << kWidth << "\" height=\"" << kHeight
         << "\" viewBox=\"0 0 " << kWidth << ' ' << kHeight << "\">\n"
         << "<style>text{font-family:sans-serif;font-size:12px;fill:#222}.right{text-anchor:end}"
         << ".middle{text-anchor:middle}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
  }

  void Axes(const std::string& what) {
    const double bottom = kHeight - kBottom, right = kWidth - kRight;
    ForMarks(losses_, [&](double mark) {
      Line(kLeft, Y(mark), right, Y(mark));
      Text(kLeft - 8, Y(mark) + 4, "right", mark);
    });
    ForMarks(steps_, [&](double mark) {
      Line(X(mark), kTop, X(mark), bottom);
      Text(X(mark), bottom + 18, "middle", mark);
    });
    Text((kLeft + right) / 2, kHeight - 12, "middle", "step");
    svg_ << "<text class=\"middle\" transform=\"translate(18 " << (kTop + bottom) / 2 << ") rotate(-90)\">" << what
         << "</text>\n";
  }

  void Curve(const std::vector<Point>& points, const char* colour, double width) {
    svg_ << "<polyline fill=\"none\" stroke=\"" << colour << "\" stroke-width=\"" << width << "\" points=\"";
    for (const Point& point : points) svg_ << X(static_cast<double>(point.step)) << ',' << Y(point.loss) << ' ';
    svg_ << "\"/>\n";
  }

  void Dots(const std::vector<Point>& points) {
    for (const Point& point : points) {
      svg_ << "<circle cx=\"" << X(static_cast<double>(point.step)) << "\" cy=\"" << Y(point.loss)
           << "\" r=\"3\" fill=\"" << kDots << "\"/>\n";
    }
  }

  void Legend(const std::string& what, bool evaluated) {
    const auto entry = [&](double x, const char* colour, const std::string& text) {
      svg_ << "<rect x=\"" << x << "\" y=\"20\" width=\"16\" height=\"10\" fill=\"" << colour << "\"/>\n";
      Text(x + 22, 29, "left", text);
    };
    entry(kLeft, kPale, what + " of a step");
    entry(kLeft + 140, kDark, "running mean");
    if (evaluated) entry(kLeft + 280, kDots, "evaluation");
  }

  std::string Take() {
    svg_ << "</svg>\n";
    return svg_.str();
  }

 private:
  double X(double step) const {
    return kLeft + (step - steps_.low) / (steps_.high - steps_.low) * (kWidth - kLeft - kRight);
  }
  double Y(double loss) const {
    return kTop + (losses_.high - loss) / (losses_.high - losses_.low) * (kHeight - kTop - kBottom);
  }

  template <typename Work>
  static void ForMarks(const Range& range, Work work) {
    const double distance = MarkDistance(range);
    const auto first = static_cast<int64_t>(std::ceil(range.low / distance));
    const auto last = static_cast<int64_t>(std::floor(range.high / distance));
    for (int64_t i = first; i <= last; ++i) work(static_cast<double>(i) * distance);
  }

  void Line(double x1, double y1, double x2, double y2) {
    svg_ << "<line x1=\"" << x1 << "\" y1=\"" << y1 << "\" x2=\"" << x2 << "\" y2=\"" << y2 << "\" stroke=\"#ddd\"/>\n";
  }
  template <typename Words>
  void Text(double x, double y, const char* style, const Words& words) {
    svg_ << "<text x=\"" << x << "\" y=\"" << y << "\" class=\"" << style << "\">" << words << "</text>\n";
  }

  const Range steps_, losses_;
  std::ostringstream svg_;
};

}  // namespace

std::string DrawLossChart(const LogCurves& curves, const std::string& what) {
  const std::vector<Point> train = Thinned(curves.train);
  Chart chart(curves);
  chart.Axes(what);
  chart.Curve(train, kPale, 1.2);
  chart.Curve(Smoothed(train), kDark, 1.8);
  chart.Dots(curves.eval);
  chart.Legend(what, !curves.eval.empty());
  return chart.Take();
}

}  // namespace trireme
