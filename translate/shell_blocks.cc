#include "translate/shell_blocks.h"

#include <algorithm>

namespace trireme {

Runs ShellBlocks::runs() const {
  Runs all = Runs::kYes;
  for (const Block& block : blocks_) all = std::max(all, block.runs);
  return all;
}

void ShellBlocks::Open(Runs runs) {
  blocks_.emplace_back();
  blocks_.back().runs = runs;
}

void ShellBlocks::OpenIf(Truth holds) {
  Open(Runs::kYes);
  NextBranch(holds);
}

void ShellBlocks::OpenCase(const std::string& subject) {
  Open(Runs::kNo);
  blocks_.back().subject = subject;
  blocks_.back().is_case = blocks_.back().awaits_pattern = true;
}

void ShellBlocks::NextBranch(Truth holds) {
  if (blocks_.empty()) return;
  Block& block = blocks_.back();
  if (block.settled || holds == false) {
    block.runs = Runs::kNo;
    return;
  }
  block.runs = holds && !block.doubtful ? Runs::kYes : Runs::kMaybe;
  block.settled = holds.has_value();
  block.doubtful = block.doubtful || !holds;
}

void ShellBlocks::NextPattern(const std::vector<std::string>& patterns) {
  if (blocks_.empty()) return;
  NextBranch(MatchesOne(blocks_.back().subject, patterns));
  blocks_.back().awaits_pattern = false;
}

void ShellBlocks::EndPattern() {
  if (!blocks_.empty() && blocks_.back().is_case) blocks_.back().awaits_pattern = true;
}

void ShellBlocks::Close() {
  if (!blocks_.empty()) blocks_.pop_back();
}

}  // namespace trireme
