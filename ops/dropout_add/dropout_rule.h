// Which elements dropout drops: a 24-bit draw from the two words of a row's key and the column's index alone,
// so that any layout, any device and a recomputed forward pass drop the same elements. These are the rule's
// constants; ops/dropout_add/cpu.h and ops/dropout_add/dropout_add_kernel.cpp follow it bit for bit.
//
//   h = column · kColumnStep + first word
//   h = mixed(h, 16) · kFirstFactor + second word        mixed(h, n) = h xor (h >> n)
//   h = mixed(mixed(h, 15) · kSecondFactor, 16)
//   dropped if h >> 8 is below rate · 2²⁴
#pragma once

namespace trireme {

constexpr unsigned kColumnStep = 0x9e3779b1u, kFirstFactor = 0x7feb352du, kSecondFactor = 0x846ca68bu;
constexpr unsigned kFirstShift = 16, kSecondShift = 15, kThirdShift = 16, kUnusedBits = 8;
constexpr float kDraws = 16777216.0f;

}  // namespace trireme
