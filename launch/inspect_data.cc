#include "launch/inspect_data.h"

#include <algorithm>
#include <iomanip>
#include <optional>
#include <ostream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "data/dataset.h"
#include "data/indexed_file.h"
#include "data/prepare.h"
#include "data/source_name.h"
#include "stages/preference_check.h"
#include "stages/stage.h"

namespace trireme {
namespace {

constexpr int kBins = 10;
constexpr int kBar = 40;
constexpr int64_t kShown = 2000;  // tokens of a sample

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
    out << std::setw(9) << begin << " to " << std::setw(8) << begin + width - 1 << "  " << std::left << std::setw(kBar)
        << bar << std::right << "  " << bins[i] << "\n";
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

// The index of the requested sample.
int64_t IndexOf(int64_t sample, int64_t size, const std::string& path) {
  if (sample <= size) return sample - 1;
  throw InputError("--sample ", sample, ": ", path, " has ", size, " samples; wanted 1 to ", size);
}

// The tokens with one placeholder for each image, as the chat template renders it.
std::vector<int64_t> WithoutRepeats(const Row& row) {
  std::vector<int64_t> ids;
  size_t image = 0;
  for (int64_t i = 0; i < std::ssize(row.input_ids); ++i) {
    ids.push_back(row.input_ids[i]);
    if (image == row.images.size() || i != row.images[image].first) continue;
    while (i + 1 < std::ssize(row.input_ids) && row.input_ids[i + 1] == row.input_ids[i]) ++i;
    ++image;
  }
  return ids;
}

void PrintImages(const Row& row, std::ostream& out) {
  for (const RowImage& image : row.images) {
    int64_t end = image.first;
    while (end < std::ssize(row.input_ids) && row.input_ids[end] == row.input_ids[image.first]) ++end;
    const std::string name = image.source.starts_with("data:") ? image.source.substr(0, 40) + "…" : image.source;
    out << "  image   " << Printable(name) << ": grid "
        << (image.grid.time > 1 ? Concat(image.grid.time, " tiles of ") : "") << image.grid.height << " x "
        << image.grid.width << ", " << end - image.first << " tokens from " << image.first << ", not trained\n";
  }
}

// `tokenizer` may be null.
void PrintSample(int64_t number, const Row& row, const Tokenizer* tokenizer, std::ostream& out) {
  std::vector<int> mask;
  std::vector<int64_t> learnt;
  for (const int64_t label : row.labels) {
    mask.push_back(label != kNotTrained);
    if (label != kNotTrained) learnt.push_back(label);
  }
  out << (number == 1 ? "first sample, " : Concat("sample ", number, ", ")) << row.input_ids.size()
      << " tokens, of which " << CountTrained(row) << " are trained on:\n";
  if (tokenizer != nullptr) {
    out << "  text    " << Decoded(*tokenizer, WithoutRepeats(row)) << "\n";
    out << "  trained " << Decoded(*tokenizer, learnt) << "\n";
  }
  PrintImages(row, out);
  out << "  tokens  " << FirstOf(row.input_ids) << "\n  mask    " << FirstOf(mask) << "\n";
}

// What a run would use of it, in the run's own words.
void PrintTaken(const std::filesystem::path& path, const std::shared_ptr<const RowStore>& store, const Config& config,
                std::ostream& out) {
  const bool pairs = FactsOf(config).records == Records::kPairs;
  out << "a run uses " << TakenOf(store, config)->size() << (pairs ? " pairs" : " samples")
      << " of at most data.max_length = " << config.data().max_length() << (pairs ? " tokens per side\n" : " tokens\n");
  for (const std::string& line : LeftOutOf(path, *store, config)) out << "  " << line << "\n";
}

// Both sides of a pair, which are neighbours in the store, and the lengths of each side's.
void PrintPair(int64_t number, const RowStore& store, const std::filesystem::path& path, const Tokenizer* tokenizer,
               std::ostream& out) {
  const int64_t first = 2 * IndexOf(number, store.size() / 2, path.string());
  for (const int64_t side : {0, 1}) {
    out << (side == 0 ? "chosen: " : "rejected: ");
    PrintSample(number, store.Read(first + side), tokenizer, out);
  }
  if (store.Value(first) != 0) out << "  margin  " << store.Value(first) << "\n";
  for (const int64_t side : {0, 1}) {
    std::vector<int64_t> lengths;
    for (int64_t i = side; i < store.size(); i += 2) lengths.push_back(store.Length(i));
    out << (side == 0 ? "chosen, " : "rejected, ");
    PrintHistogram(lengths, out);
  }
}

void InspectRecords(const DataFile& file, const DataLook& look, std::ostream& out) {
  const Config& config = look.config;
  const std::filesystem::path& path = file.path;
  const Preparer preparer(config.data(), FactsOf(config), config.model(), /*works=*/true, TextOptionsOf(config));
  const std::unique_ptr<RecordFile> records = OpenRecords(file);
  out << path.string() << ": " << records->size() << " records\n";
  if (records->size() == 0) throw InputError(path.string(), ": has no rows");
  bool has_tokens = false;
  try {
    has_tokens =
        !WantsOf(records->Read(0), preparer.sample_options(), FactsOf(config), preparer.text_options()).tokenizer;
  } catch (const Error&) {  // preparing says it better, with its place
  }
  if (!has_tokens && config.model().path().empty()) {
    const int64_t index = IndexOf(look.sample, records->size(), path.string());
    out << (index == 0 ? "first record: " : Concat("record ", look.sample, ": ")) << JsonLine(records->Read(index))
        << "\nadd --model DIR to see it as tokens\n";
    return;
  }
  const std::shared_ptr<const RowStore> store = preparer.Prepare(file);
  std::vector<int64_t> lengths;
  int64_t tokens = 0, trained = 0;
  for (int64_t i = 0; i < store->size(); ++i) {
    lengths.push_back(store->Length(i));
    tokens += store->Length(i);
    trained += store->Trained(i);
  }
  const Records kind = FactsOf(config).records;
  const int64_t sides = kind == Records::kPairs ? 2 : 1;
  out << store->size() / sides << (sides == 2 ? " pairs, " : " samples, ") << tokens << " tokens, of which " << trained
      << " are trained on; " << store->skipped() << " records skipped\n";
  if (lengths.empty()) return;
  PrintTaken(path, store, config, out);
  const Tokenizer* tokenizer = has_tokens ? nullptr : &preparer.tokenizer().tokenizer();
  if (kind == Records::kPairs) return PrintPair(look.sample, *store, path, tokenizer, out);
  const int64_t index = IndexOf(look.sample, store->size(), path.string());
  PrintSample(look.sample, store->Read(index), tokenizer, out);
  if (kind == Records::kJudged) out << "  label   " << (store->Value(index) > 0.5F ? "true" : "false") << "\n";
  PrintHistogram(lengths, out);
}

void InspectIndexed(const std::filesystem::path& prefix, const DataLook& look, std::ostream& out) {
  const Config& config = look.config;
  const IndexedFile file(prefix);
  std::vector<int64_t> lengths;
  int64_t tokens = 0;
  for (int64_t i = 0; i < file.documents(); ++i) {
    lengths.push_back(file.DocumentLength(i));
    tokens += lengths.back();
  }
  out << prefix.string() << ".bin: " << file.documents() << " documents, " << file.sequences() << " sequences, "
      << tokens << " tokens\n";
  if (lengths.empty()) return;
  Row row;
  const int64_t index = IndexOf(look.sample, file.documents(), prefix.string() + ".bin");
  file.Append(index, 0, lengths[index], row.input_ids);
  row.labels = row.input_ids;
  std::optional<Tokenizer> tokenizer;
  if (!config.model().path().empty()) tokenizer.emplace(config.model().path());
  PrintSample(look.sample, row, tokenizer ? &*tokenizer : nullptr, out);
  PrintHistogram(lengths, out);
}

void InspectFiles(const SourceName& name, const DataLook& look, std::ostream& out) {
  for (const DataFile& file : FilesOf(name, "inspect")) {
    if (const auto prefix = IndexedPrefix(file.path)) {
      InspectIndexed(*prefix, look, out);
    } else {
      InspectRecords(file, look, out);
    }
  }
}

}  // namespace

bool IsData(const std::filesystem::path& path) {
  if (IndexedPrefix(path)) return true;
  if (!IsDirectory(path)) return HoldsRecords(path);
  if (PathExists(path / "config.json") || PathExists(path / "adapter_config.json")) return false;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    if (HoldsRecords(entry.path()) || IndexedPrefix(entry.path())) return true;
  }
  if (error) throw InputError(path.string(), ": cannot be read: ", error.message());
  return false;
}

void InspectData(const std::filesystem::path& path, const DataLook& look, std::ostream& out) {
  InspectFiles({.path = path, .count = {}, .weight = {}}, look, out);
}

void InspectRunData(const DataLook& look, std::ostream& out) {
  const DataConfig& data = look.config.data();
  if (data.train().empty() && data.valid().empty()) throw InputError("data.train is empty; name at least one file");
  for (const auto& [key, entries] : {std::pair{"data.train", &data.train()}, std::pair{"data.valid", &data.valid()}}) {
    for (const std::string& entry : *entries) InspectFiles(ParseSourceName(entry, key, look.config), look, out);
  }
}

}  // namespace trireme
