#include "train/report/event_file.h"

#include <bit>
#include <chrono>
#include <cstdio>
#include <string>

#include "core/io/crc32c.h"
#include "core/io/file_system.h"
#include "train/report/curves.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little, "TFRecord's numbers are little-endian");

int64_t MicrosecondsNow() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// TensorBoard reads the files of a directory in name order.
std::filesystem::path FreshName(const std::filesystem::path& directory) {
  CreateFolder(directory);
  const int64_t now = MicrosecondsNow();
  char name[64];
  std::snprintf(name, sizeof(name), "events.out.tfevents.%010lld.%06lld", static_cast<long long>(now / 1'000'000),
                static_cast<long long>(now % 1'000'000));
  return directory / name;
}

// TFRecord masks checksums, because a CRC of data that contains CRCs is weak.
uint32_t MaskedCrc(const void* data, size_t bytes) {
  constexpr uint32_t kMask = 0xa282ead8;
  return std::rotr(Crc32c(data, bytes), 15) + kMask;
}

std::string Record(const std::string& data) {
  std::string record;
  const auto put = [&](const auto& number) { record.append(reinterpret_cast<const char*>(&number), sizeof(number)); };
  const uint64_t length = data.size();
  put(length);
  put(MaskedCrc(&length, sizeof(length)));
  record += data;
  put(MaskedCrc(data.data(), data.size()));
  return record;
}

}  // namespace

EventFile::EventFile(const std::filesystem::path& directory, int64_t first_step) : file_(FreshName(directory)) {
  events::Event version;
  version.set_file_version("brain.Event:2");
  Append(std::move(version));
  events::Event start;
  start.set_step(first_step);
  start.mutable_session_log()->set_status(events::SessionLog::START);
  Append(std::move(start));
}

void EventFile::Write(const LoggedStep& step) {
  events::Event event;
  event.set_step(step.step);
  for (const auto& [tag, number] : CurvesOf(step)) {
    events::Summary::Value& value = *event.mutable_summary()->add_value();
    value.set_tag(tag);
    value.set_simple_value(static_cast<float>(number));
  }
  Append(std::move(event));
}

std::unique_ptr<Reporter> OpenEventFile(const ReportOptions& options) {
  return std::make_unique<EventFile>(options.output / "events", options.first_step);
}

void EventFile::Append(events::Event event) {
  event.set_wall_time(static_cast<double>(MicrosecondsNow()) / 1e6);
  file_.Append(Record(event.SerializeAsString()));
}

}  // namespace trireme
