#include "checkpoint/agreed_refusal.h"

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/io/atomic_file.h"
#include "core/io/file_system.h"

namespace trireme {

void AgreeOnRefusal(const std::filesystem::path& part, const std::optional<std::string>& mine,
                    const ProcessGroup& process_group) {
  const auto note = [&](int rank) { return part / Concat("refused-", rank); };
  if (mine) WriteAtomicFile(note(process_group.rank), *mine);
  process_group.barrier();
  std::optional<std::string> first;
  for (int rank = 0; rank < process_group.size && !first; ++rank) {
    if (PathExists(note(rank))) first = ReadTextFile(note(rank).string());
  }
  process_group.barrier();  // all have read the notes
  if (!first) return;
  if (process_group.rank == 0) RemoveAll(part);
  process_group.barrier();
  throw InputError(*first);
}

}  // namespace trireme
