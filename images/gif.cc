// GIF's first frame. Transparent pixels have the colour that the palette has for them, as Pillow converts them.
#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "images/byte_reader.h"
#include "images/format.h"

namespace trireme::images {
namespace {

using Palette = std::array<uint8_t, 768>;

struct GifFrame {
  int64_t canvas_width = 0, canvas_height = 0, left = 0, top = 0, width = 0, height = 0;
  bool interlaced = false;
  uint8_t background = 0;  // index of what the frame does not cover
  size_t palette = 0, colours = 0;
  size_t data = 0;  // offset of the code size, then blocks
};

bool IsGif(Bytes bytes) {
  const ByteReader reader(bytes);
  return reader.Is(0, "GIF87a") || reader.Is(0, "GIF89a");
}

size_t AfterBlocks(const ByteReader& reader, size_t at) {
  while (reader.U8(at) != 0) at += 1 + reader.U8(at);
  return at + 1;
}

// To the first image descriptor; a control extension before it may name the transparent index.
size_t FindFrame(const ByteReader& reader, size_t at, GifFrame* frame) {
  for (;;) {
    const uint32_t kind = reader.U8(at);
    if (kind == ',') return at;
    if (kind == ';') throw BadImage("a GIF file without an image");
    if (kind != '!') {  // some writers pad
      ++at;
      continue;
    }
    if (reader.U8(at + 1) == 0xf9 && reader.U8(at + 2) >= 4 && (reader.U8(at + 3) & 1) != 0) {
      frame->background = static_cast<uint8_t>(reader.U8(at + 6));
    }
    at = AfterBlocks(reader, at + 2);
  }
}

GifFrame ReadFrame(Bytes bytes) {
  const ByteReader reader(bytes);
  GifFrame frame;
  frame.canvas_width = reader.U16(6), frame.canvas_height = reader.U16(8);
  size_t at = 13;
  if ((reader.U8(10) & 0x80) != 0) {
    frame.palette = at, frame.colours = size_t{2} << (reader.U8(10) & 7);
    at += 3 * frame.colours;
  }
  at = FindFrame(reader, at, &frame);
  frame.left = reader.U16(at + 1), frame.top = reader.U16(at + 3);
  frame.width = reader.U16(at + 5), frame.height = reader.U16(at + 7);
  const uint32_t flags = reader.U8(at + 9);
  frame.interlaced = (flags & 0x40) != 0;
  at += 10;
  if ((flags & 0x80) != 0) {
    frame.palette = at, frame.colours = size_t{2} << (flags & 7);
    at += 3 * frame.colours;
  }
  frame.data = at;
  frame.canvas_width = std::max(frame.canvas_width, frame.left + frame.width);
  frame.canvas_height = std::max(frame.canvas_height, frame.top + frame.height);
  return frame;
}

ImageHeader GifHeader(Bytes bytes) {
  const GifFrame frame = ReadFrame(bytes);
  return {.width = frame.canvas_width, .height = frame.canvas_height, .surely_whole = bytes.back() == ';'};
}

// Codes of growing width, lowest bit first, out of blocks of up to 255 bytes.
class CodeReader {
 public:
  CodeReader(const ByteReader& reader, size_t at) : reader_(reader), at_(at) {}

  int Next(int bits) {  // -1: the blocks end
    while (held_ < bits) {
      if (left_ == 0) {
        left_ = reader_.U8(at_++);
        if (left_ == 0) return -1;
      }
      value_ |= reader_.U8(at_++) << held_;
      held_ += 8;
      --left_;
    }
    const int code = static_cast<int>(value_ & ((1u << bits) - 1));
    value_ >>= bits;
    held_ -= bits;
    return code;
  }

 private:
  const ByteReader& reader_;
  size_t at_;
  uint32_t left_ = 0, value_ = 0;
  int held_ = 0;
};

// LZW: a code stands for a string, which is an earlier string and one more index.
class Unpacker {
 public:
  explicit Unpacker(int bits) : clear_(1 << bits), bits_(bits) {
    for (int i = 0; i < clear_; ++i) last_[static_cast<size_t>(i)] = static_cast<uint8_t>(i);
  }

  std::vector<uint8_t> Run(CodeReader* codes, size_t wanted) {
    std::vector<uint8_t> out;
    Clear();
    while (out.size() < wanted) {
      const int code = codes->Next(width_);
      if (code < 0 || code == clear_ + 1) throw Truncated();
      if (code == clear_) {
        Clear();
        continue;
      }
      Add(code, &out);
    }
    out.resize(wanted);
    return out;
  }

 private:
  void Clear() {
    width_ = bits_ + 1;
    next_ = clear_ + 2;
    previous_ = -1;
  }

  void Add(int code, std::vector<uint8_t>* out) {
    if (code > next_ || (code == next_ && previous_ < 0) || (previous_ < 0 && code >= clear_)) {
      throw BadImage("a GIF file with broken data");
    }
    const bool growing = previous_ >= 0 && next_ < 4096;
    if (code == next_ && !growing) throw BadImage("a GIF file with broken data");
    string_.clear();
    for (int c = code == next_ ? previous_ : code;; c = before_[static_cast<size_t>(c)]) {
      string_.push_back(last_[static_cast<size_t>(c)]);
      if (c < clear_) break;
    }
    const uint8_t first = string_.back();
    out->insert(out->end(), string_.rbegin(), string_.rend());
    if (code == next_) out->push_back(first);
    if (growing) {
      before_[static_cast<size_t>(next_)] = static_cast<uint16_t>(previous_);
      last_[static_cast<size_t>(next_++)] = first;
      if (next_ == 1 << width_ && width_ < 12) ++width_;
    }
    previous_ = code;
  }

  const int clear_, bits_;
  int width_ = 0, next_ = 0, previous_ = -1;
  std::array<uint16_t, 4096> before_ = {};
  std::array<uint8_t, 4096> last_ = {};
  std::vector<uint8_t> string_;  // backwards
};

std::vector<int64_t> RowOrder(const GifFrame& frame) {
  std::vector<int64_t> rows;
  const std::vector<std::pair<int64_t, int64_t>> passes =
      frame.interlaced ? std::vector<std::pair<int64_t, int64_t>>{{0, 8}, {4, 8}, {2, 4}, {1, 2}}
                       : std::vector<std::pair<int64_t, int64_t>>{{0, 1}};
  for (const auto& [first, step] : passes) {
    for (int64_t y = first; y < frame.height; y += step) rows.push_back(y);
  }
  return rows;
}

Palette PaletteOf(const ByteReader& reader, const GifFrame& frame) {
  Palette palette;
  for (size_t i = 0; i < palette.size(); ++i) palette[i] = static_cast<uint8_t>(i / 3);
  if (frame.colours > 0) std::ranges::copy(reader.At(frame.palette, 3 * frame.colours), palette.begin());
  return palette;
}

Image DecodeGif(Bytes bytes, const ImageHeader&) {
  const ByteReader reader(bytes);
  const GifFrame frame = ReadFrame(bytes);
  const uint32_t bits = reader.U8(frame.data);
  if (bits < 1 || bits > 8) throw BadImage("a GIF file with an unknown code size");
  CodeReader codes(reader, frame.data + 1);
  const auto unpacker = std::make_unique<Unpacker>(static_cast<int>(bits));
  const std::vector<uint8_t> indices = unpacker->Run(&codes, static_cast<size_t>(frame.width * frame.height));
  const Palette palette = PaletteOf(reader, frame);
  Image image(frame.canvas_width, frame.canvas_height);
  for (size_t i = 0; i < image.rgb.size(); ++i) image.rgb[i] = palette[3u * frame.background + i % 3];
  const uint8_t* index = indices.data();
  for (const int64_t y : RowOrder(frame)) {
    uint8_t* to = image.row(frame.top + y) + 3 * frame.left;
    for (int64_t x = 0; x < frame.width; ++x, to += 3, ++index) std::copy_n(&palette[3u * *index], 3, to);
  }
  return image;
}

}  // namespace

ImageFormat GifFormat() { return {"GIF", IsGif, GifHeader, DecodeGif}; }

}  // namespace trireme::images
