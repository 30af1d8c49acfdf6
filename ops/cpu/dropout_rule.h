// Which elements dropout drops: a draw of 24 bits from the two words of a row's key and the column's number
// alone, so that any layout, any device and a second forward pass drop the same. These are the rule's
// numbers; ops/cpu/dropout.h and ops/ascendc/kernels/dropout_add.cpp follow it to the bit.
//
//   h = column · kColumnStep + first word
//   h = mixed(h, 16) · kFirstFactor + second word        mixed(h, n) = h xor (h >> n)
//   h = mixed(mixed(h, 15) · kSecondFactor, 16)
//   dropped where h >> 8 is below rate · 2²⁴
#pragma once

namespace trireme {

constexpr unsigned kColumnStep = 0x9e3779b1u, kFirstFactor = 0x7feb352du, kSecondFactor = 0x846ca68bu;
constexpr unsigned kFirstShift = 16, kSecondShift = 15, kThirdShift = 16, kUnusedBits = 8;
constexpr float kDraws = 16777216.0f;

}  // namespace trireme
