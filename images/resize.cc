#include "images/resize.h"

#include <algorithm>
#include <cmath>

namespace trireme::images {
namespace {

// For each output position: which inputs it is made of, and how much of each, as integers of `bits` fractional bits.
struct Taps {
  struct Span {
    int64_t first = 0, count = 0;
  };
  std::vector<Span> spans;
  std::vector<int16_t> weights;  // [positions, width]
  int64_t width = 0;
  int bits = 0;
};

double Cubic(double u) {
  constexpr double a = -0.5;
  u = std::abs(u);
  if (u < 1) return ((a + 2) * u - (a + 3)) * u * u + 1;
  if (u < 2) return (((u - 5) * u + 8) * u - 4) * a;
  return 0;
}

// The most fractional bits with which the largest weight fits into 16 bits.
int FractionalBits(double largest) {
  int bits = 0;
  while (bits < 22 && static_cast<int>(0.5 + largest * (1 << (bits + 1))) < (1 << 15)) ++bits;
  return bits;
}

Taps MakeTaps(int64_t in, int64_t out) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double widened = std::max(scale, 1.0), support = 2 * widened, inverse = 1 / widened;
  Taps taps;
  taps.width = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  taps.spans.resize(static_cast<size_t>(out));
  std::vector<double> real(static_cast<size_t>(out * taps.width));
  for (int64_t i = 0; i < out; ++i) {
    const double centre = scale * (static_cast<double>(i) + 0.5);
    const int64_t first = std::max(static_cast<int64_t>(centre - support + 0.5), int64_t{0});
    const int64_t count = std::min(static_cast<int64_t>(centre + support + 0.5), in) - first;
    double* weights = real.data() + i * taps.width;
    double sum = 0;
    for (int64_t k = 0; k < count; ++k) {
      sum += weights[k] = Cubic((static_cast<double>(k + first) - centre + 0.5) * inverse);
    }
    for (int64_t k = 0; k < count && sum != 0; ++k) weights[k] /= sum;
    taps.spans[static_cast<size_t>(i)] = {first, count};
  }
  taps.bits = FractionalBits(*std::ranges::max_element(real));
  taps.weights.resize(real.size());
  std::ranges::transform(real, taps.weights.begin(), [&](double weight) {
    return static_cast<int16_t>(weight * (1 << taps.bits) + (weight < 0 ? -0.5 : 0.5));
  });
  return taps;
}

uint8_t ToByte(int32_t sum, int bits) { return static_cast<uint8_t>(std::clamp(sum >> bits, 0, 255)); }

void ResizeRow(const uint8_t* from, const Taps& taps, uint8_t* to) {
  const int32_t half = 1 << (taps.bits - 1);
  const int16_t* weights = taps.weights.data();
  for (const Taps::Span& span : taps.spans) {
    int32_t red = half, green = half, blue = half;
    const uint8_t* pixel = from + 3 * span.first;
    for (int64_t k = 0; k < span.count; ++k, pixel += 3) {
      red += weights[k] * pixel[0], green += weights[k] * pixel[1], blue += weights[k] * pixel[2];
    }
    to[0] = ToByte(red, taps.bits), to[1] = ToByte(green, taps.bits), to[2] = ToByte(blue, taps.bits);
    to += 3;
    weights += taps.width;
  }
}

Image ResizeWidth(const Image& image, int64_t width) {
  const Taps taps = MakeTaps(image.width, width);
  Image result(width, image.height);
  for (int64_t y = 0; y < image.height; ++y) ResizeRow(image.row(y), taps, result.row(y));
  return result;
}

Image ResizeHeight(const Image& image, int64_t height) {
  const Taps taps = MakeTaps(image.height, height);
  Image result(image.width, height);
  const size_t count = static_cast<size_t>(3 * image.width);
  std::vector<int32_t> sums(count);
  for (int64_t y = 0; y < height; ++y) {
    const Taps::Span& span = taps.spans[static_cast<size_t>(y)];
    std::ranges::fill(sums, 1 << (taps.bits - 1));
    for (int64_t k = 0; k < span.count; ++k) {
      const uint8_t* from = image.row(span.first + k);
      const int32_t weight = taps.weights[static_cast<size_t>(y * taps.width + k)];
      for (size_t i = 0; i < count; ++i) sums[i] += weight * from[i];
    }
    uint8_t* to = result.row(y);
    for (size_t i = 0; i < count; ++i) to[i] = ToByte(sums[i], taps.bits);
  }
  return result;
}

}  // namespace

Image Resize(const Image& image, int64_t width, int64_t height) {
  if (width != image.width) {
    const Image narrow = ResizeWidth(image, width);
    return height != image.height ? ResizeHeight(narrow, height) : narrow;
  }
  return height != image.height ? ResizeHeight(image, height) : image;
}

}  // namespace trireme::images
