// Which lines of a script are run: the if, case, loops and functions around the one that is being read, and what is
// known of their conditions.
#pragma once

#include <string>
#include <vector>

#include "translate/shell_conditions.h"

namespace trireme {

enum class Runs { kYes, kMaybe, kNo };

class ShellBlocks {
 public:
  Runs runs() const;  // of the innermost block within all others

  void OpenIf(Truth holds);                   // its first branch
  void OpenCase(const std::string& subject);  // before its first pattern
  void Open(Runs runs);                       // a loop, a function, a group
  void NextBranch(Truth holds);               // elif, else
  void NextPattern(const std::vector<std::string>& patterns);
  void EndPattern();  // ;;
  void Close();
  bool awaits_pattern() const { return !blocks_.empty() && blocks_.back().awaits_pattern; }

 private:
  struct Block {
    Runs runs = Runs::kYes;
    std::string subject;
    bool is_case = false, awaits_pattern = false;
    bool settled = false;   // no later branch can run
    bool doubtful = false;  // an earlier branch may have run
  };
  std::vector<Block> blocks_;
};

}  // namespace trireme
