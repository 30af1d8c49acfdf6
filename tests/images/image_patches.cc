// image_patches MODEL OUTPUT < NAMES: each image named on a line of the input (a path or a data: URL) through the
// model's image processor. OUTPUT gets, per image, int64 time, height and width of its grid and the fp32 patches, or
// three zeros where the image is refused; the reasons are printed, one line per image. For tests/parity/images_test.py,
// which compares it with transformers.
#include <fstream>
#include <iostream>
#include <string>

#include "core/base/error.h"
#include "images/decode.h"
#include "images/image_source.h"
#include "images/processor.h"

namespace {

using namespace trireme;          // NOLINT
using namespace trireme::images;  // NOLINT

void Put(std::ofstream& out, const void* data, size_t bytes) {
  out.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
}

void Process(const ImageProcessor& processor, const std::string& name, std::ofstream& out) {
  const ImageSource source(name, ".");
  const ImageHeader header = ReadImageHeader(source.bytes(), source.name());
  const Image image = DecodeImage(source.bytes(), source.name());
  if (image.width != header.upright_width() || image.height != header.upright_height()) throw InputError("two sizes");
  const ImageGrid grid = processor.GridFor({image.width, image.height}, source.name());
  std::vector<float> patches(static_cast<size_t>(grid.patches() * processor.patch_floats()));
  processor.WritePatches(processor.Prepared(image, source.name()), patches.data());
  Put(out, &grid.time, sizeof grid.time);
  Put(out, &grid.height, sizeof grid.height);
  Put(out, &grid.width, sizeof grid.width);
  Put(out, patches.data(), patches.size() * sizeof(float));
}

}  // namespace

int main(int, char** arguments) {
  const ImageProcessor processor(ProcessorSettings::Read(arguments[1]));
  std::ofstream out(arguments[2], std::ios::binary);
  for (std::string name; std::getline(std::cin, name);) {
    try {
      Process(processor, name, out);
      std::cout << "ok\n";
    } catch (const Error& error) {
      const int64_t zeros[3] = {0, 0, 0};
      Put(out, zeros, sizeof zeros);
      std::cout << error.what() << '\n';
    }
  }
  return out.good() ? 0 : 1;
}
