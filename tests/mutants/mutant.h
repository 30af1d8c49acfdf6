// Active: whether a mutant is switched on. Only files of the tree that tests/mutate writes include it. TRIREME_MUTANT
// has the number of the one that is; TRIREME_MUTANT_REACHED the file that is made when it is asked for, so that a
// mutant that no test reaches is told from one that no test notices.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

namespace trireme_mutant {

inline int Chosen() {
  static const int chosen = [] {
    const char* text = std::getenv("TRIREME_MUTANT");
    return text == nullptr ? 0 : std::atoi(text);
  }();
  return chosen;
}

inline bool LeaveMark() {
  const char* file = std::getenv("TRIREME_MUTANT_REACHED");
  const int fd = file == nullptr ? -1 : open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd >= 0) close(fd);
  return true;
}

inline bool Active(int mutant) {
  if (mutant != Chosen()) return false;
  static const bool marked = LeaveMark();
  return marked;
}

}  // namespace trireme_mutant
