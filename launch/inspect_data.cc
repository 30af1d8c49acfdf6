#include "launch/inspect_data.h"

#include <algorithm>
#include <iomanip>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "train/data/indexed_file.h"
#include "train/data/prepare.h"
#include "train/data/source_name.h"

namespace trireme {
namespace {

constexpr int kBins = 10;
constexpr int kBar = 40;
constexpr int64_t kShown = 2000;  // tokens of the first sample

// Ten bins from the shortest to the longest.
void PrintHistogram(const std::vector<int64_t>& lengths, std::ostream& out) {
  const auto [least, most] = std::minmax_element(lengths.begin(), lengths.end());
  const int64_t width = (*most - *least) / kBins + 1;
  std::vector<int64_t> bins((*most - *least) / width + 1, 0);
  for (const int64_t length : lengths) ++bins[(length - *least) / width];
  const int64_t fullest = *std::max_element(bins.begin(), bins.end());
  out << "lengths, in tokens:\n";
  for (size_t i = 0; i < bins.size(); ++i) {
    const int64_t begin = *least + static_cast<int64_t>(i) * width;
    const std::string bar((bins[i] * kBar + fullest - 1) / fullest, '#');
    out << std::setw(9) << begin << " to " << std::setw(8) << begin + width - 1 << "  " << std::left
        << std::setw(kBar) << bar << std::right << "  " << bins[i] << "\n";
  }
}

template <typename List>
std::string FirstOf(const List& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size() && static_cast<int64_t>(i) < kShown; ++i)
    text += Concat(i > 0 ? ", " : "", values[i]);
  return text + (static_cast<int64_t>(values.size()) > kShown ? ", …]" : "]");
}

std::string Decoded(const Tokenizer& tokenizer, const std::vector<int64_t>& ids) {
  return JsonLine(tokenizer.Decode(std::vector<int32_t>(ids.begin(), ids.end())));
}

// `tokenizer` may be null.
void PrintSample(const Row& row, const Tokenizer* tokenizer, std::ostream& out) {
  std::vector<int> mask;
  std::vector<int64_t> learnt;
  for (const int64_t label : row.labels) {
    mask.push_back(label != kNotTrained);
    if (label != kNotTrained) learnt.push_back(label);
  }
  out << "first sample, " << row.input_ids.size() << " tokens, of which " << TrainedTokens(row)
      << " are learnt:\n";
  if (tokenizer != nullptr) {
    out << "  text    " << Decoded(*tokenizer, row.input_ids) << "\n";
    out << "  learnt  " << Decoded(*tokenizer, learnt) << "\n";
  }
  out << "  tokens  " << FirstOf(row.input_ids) << "\n  mask    " << FirstOf(mask) << "\n";
}

void InspectRecords(const std::filesystem::path& path, const Config& config, std::ostream& out) {
  const Preparer preparer(config.data(), config.stage(), config.model().path(), /*works=*/true);
  const std::unique_ptr<RecordFile> records = OpenRecords(path);
  out << path.string() << ": " << records->size() << " records\n";
  if (records->size() == 0) throw InputError(path.string(), ": has no rows");
  bool has_tokens = false;
  try {
    has_tokens = std::holds_alternative<StoredRow>(ReadSample(records->Read(0), preparer.sample_options()));
  } catch (const Error&) {  // preparing says it better, with its place
  }
  if (!has_tokens && config.model().path().empty()) {
    out << "first record: " << JsonLine(records->Read(0)) << "\nadd --model DIR to see it as tokens\n";
    return;
  }
  const std::shared_ptr<const RowStore> store = preparer.Prepare(path);
  std::vector<int64_t> lengths;
  int64_t tokens = 0, trained = 0;
  for (int64_t i = 0; i < store->size(); ++i) {
    lengths.push_back(store->Length(i));
    tokens += store->Length(i);
    trained += store->Trained(i);
  }
  out << store->size() << " samples, " << tokens << " tokens, of which " << trained << " are learnt; "
      << store->skipped() << " records left out\n";
  if (lengths.empty()) return;
  PrintSample(store->Read(0), has_tokens ? nullptr : &preparer.tokenizer().tokenizer(), out);
  PrintHistogram(lengths, out);
}

void InspectIndexed(const std::filesystem::path& prefix, const Config& config, std::ostream& out) {
  const IndexedFile file(prefix);
  std::vector<int64_t> lengths;
  int64_t tokens = 0;
  for (int64_t i = 0; i < file.documents(); ++i) {
    lengths.push_back(file.DocumentLength(i));
    tokens += lengths.back();
  }
  out << prefix.string() << ".bin: " << file.documents() << " documents, " << file.sequences()
      << " sequences, " << tokens << " tokens\n";
  if (lengths.empty()) return;
  Row first;
  file.Append(0, 0, lengths[0], first.input_ids);
  first.labels = first.input_ids;
  std::optional<Tokenizer> tokenizer;
  if (!config.model().path().empty()) tokenizer.emplace(config.model().path());
  PrintSample(first, tokenizer ? &*tokenizer : nullptr, out);
  PrintHistogram(lengths, out);
}

}  // namespace

bool IsData(const std::filesystem::path& path) {
  if (IndexedPrefix(path)) return true;
  if (!std::filesystem::is_directory(path)) return HoldsRecords(path) || path.extension() == ".parquet";
  if (std::filesystem::exists(path / "config.json") || std::filesystem::exists(path / "adapter_config.json"))
    return false;
  return std::ranges::any_of(std::filesystem::directory_iterator(path), [](const auto& entry) {
    return HoldsRecords(entry.path()) || IndexedPrefix(entry.path());
  });
}

void InspectData(const std::filesystem::path& path, const Config& config, std::ostream& out) {
  for (const std::filesystem::path& file : FilesOf(path, "inspect")) {
    if (const auto prefix = IndexedPrefix(file)) {
      InspectIndexed(*prefix, config, out);
    } else {
      InspectRecords(file, config, out);
    }
  }
}

}  // namespace trireme
