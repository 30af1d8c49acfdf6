// EventFile: the curves of a run for TensorBoard, one file per start of the run. Records
// are framed as TFRecord. Flushed immediately: TensorBoard may read while the run is going on.
#pragma once

#include <filesystem>

#include "train/report/appended_file.h"
#include "train/report/events.pb.h"
#include "train/report/reporter.h"

namespace trireme {

class EventFile : public Reporter {
 public:
  // A new file in `directory`, which is created if missing. From earlier files only the steps before
  // `first_step` count from now on.
  EventFile(const std::filesystem::path& directory, int64_t first_step);
  void Write(const LoggedStep& step) override;

 private:
  void Append(events::Event event);

  AppendedFile file_;
};

}  // namespace trireme
