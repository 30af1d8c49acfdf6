#include "train/evaluation/text_words.h"

#include <algorithm>
#include <cstdint>

namespace trireme {
namespace {

struct Range {
  char32_t first, last;
};

template <size_t N>
bool IsIn(const Range (&ranges)[N], char32_t c) {
  return std::ranges::any_of(ranges, [c](const Range& range) { return c >= range.first && c <= range.last; });
}

// What Python's str.split() and \s split at.
constexpr Range kSpaces[] = {{0x09, 0x0D},     {0x1C, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
                             {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
// Thai, Lao, Myanmar, Khmer, kana and Bopomofo, ideographs, half-width kana.
constexpr Range kUnspaced[] = {{0x0E00, 0x0EFF}, {0x1000, 0x109F}, {0x1780, 0x17FF},  {0x3005, 0x3007},
                               {0x3041, 0x312F}, {0x31F0, 0x31FF}, {0x3400, 0x4DBF},  {0x4E00, 0x9FFF},
                               {0xF900, 0xFAFF}, {0xFF66, 0xFF9F}, {0x20000, 0x3FFFF}};
// Punctuation and symbols beyond ASCII: Latin-1's, general ones, those of Chinese and Japanese, full-width ones, emoji.
constexpr Range kMarks[] = {{0x80, 0xA9},     {0xAB, 0xB4},      {0xB6, 0xB9},     {0xBB, 0xBF},     {0xD7, 0xD7},
                            {0xF7, 0xF7},     {0x2000, 0x2BFF},  {0x2E00, 0x2E7F}, {0x3000, 0x303F}, {0xE000, 0xF8FF},
                            {0xFE10, 0xFE6F}, {0xFF00, 0xFF0F},  {0xFF1A, 0xFF20}, {0xFF3B, 0xFF40}, {0xFF5B, 0xFF65},
                            {0xFFE0, 0xFFFF}, {0x1F000, 0x1FAFF}};

bool IsDigit(char32_t c) { return c >= U'0' && c <= U'9'; }

// Of a word that spaces end.
bool IsLetter(char32_t c) {
  if (c < 0x80) return IsDigit(c) || (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z');
  return !IsIn(kSpaces, c) && !IsIn(kUnspaced, c) && !IsIn(kMarks, c);
}

bool IsJoinedMark(char32_t c) { return std::u32string_view(U"+#&._%-").find(c) != std::u32string_view::npos; }

// The sentences of rouge_chinese end after these.
bool EndsSentence(char32_t c) { return std::u32string_view(U"。！？?").find(c) != std::u32string_view::npos; }

size_t EndOfRun(const std::u32string& text, size_t at, bool (*belongs)(char32_t)) {
  while (at < text.size() && belongs(text[at])) ++at;
  return at;
}

// Where the word that begins here ends.
size_t EndOfWord(const std::u32string& text, size_t at) {
  if (IsJoinedMark(text[at])) return EndOfRun(text, at, IsJoinedMark);
  if (!IsLetter(text[at])) return at + 1;
  size_t end = EndOfRun(text, at, IsLetter);
  if (end + 1 < text.size() && text[end] == U'.' && IsDigit(text[end + 1])) end = EndOfRun(text, end + 1, IsDigit);
  if (end < text.size() && text[end] == U'%') ++end;
  return end;
}

// Of the character that begins with this byte; 0: none does.
int BytesOf(uint8_t first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return 2;
  if (first >= 0xE0 && first < 0xF0) return 3;
  return first >= 0xF0 && first < 0xF5 ? 4 : 0;
}

}  // namespace

std::u32string CodePointsOf(std::string_view text) {
  std::u32string points;
  for (size_t at = 0; at < text.size();) {
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[at + i]); };
    const int bytes = BytesOf(byte(0));
    bool whole = bytes > 0 && at + static_cast<size_t>(bytes) <= text.size();
    char32_t point = bytes == 1 ? byte(0) : byte(0) & (0xFF >> (bytes + 1));
    for (int i = 1; whole && i < bytes; ++i) {
      whole = (byte(static_cast<size_t>(i)) & 0xC0) == 0x80;
      point = (point << 6) | (byte(static_cast<size_t>(i)) & 0x3F);
    }
    points.push_back(whole ? point : U'\uFFFD');
    at += whole ? static_cast<size_t>(bytes) : 1;
  }
  return points;
}

std::vector<std::u32string> WordsOf(const std::u32string& text) {
  std::vector<std::u32string> words;
  size_t blank_lines = 0;  // since the last word
  bool has_word = true;    // the line; the first one is no blank line while nothing is before its end
  const auto end_line = [&] {
    if (!has_word) ++blank_lines;
    has_word = false;
  };
  for (size_t at = 0; at < text.size();) {
    if (IsIn(kSpaces, text[at])) {
      if (text[at] == U'\n') {
        end_line();
      } else if (at == 0) {
        has_word = false;
      }
      ++at;
      continue;
    }
    words.insert(words.end(), blank_lines, U"");
    blank_lines = 0;
    has_word = true;
    const size_t end = EndOfWord(text, at);
    words.push_back(text.substr(at, end - at));
    if (EndsSentence(text[at])) end_line();
    at = end;
  }
  return words;
}

}  // namespace trireme
