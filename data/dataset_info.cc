#include "data/dataset_info.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/nearest.h"
#include "core/base/text.h"
#include "core/config/scope.h"
#include "data/hub/hub_set_name.h"
#include "data/record_fields.h"
#include "stages/retrieval_check.h"

namespace trireme {
namespace {

// Where a column's or a tag's name goes. A "columns" or "tags" object that leaves one out says that there is none.
struct FormField {
  const char* key;
  std::string RecordForm::* field;
};
constexpr FormField kColumns[] = {
    {"prompt", &RecordForm::prompt},   {"query", &RecordForm::query},       {"response", &RecordForm::response},
    {"history", &RecordForm::history}, {"messages", &RecordForm::messages}, {"system", &RecordForm::system},
    {"tools", &RecordForm::tools},     {"images", &RecordForm::images},     {"videos", &RecordForm::videos},
    {"audios", &RecordForm::audios},   {"chosen", &RecordForm::chosen},     {"rejected", &RecordForm::rejected},
    {"kto_tag", &RecordForm::kto_tag}};
constexpr FormField kTags[] = {{"role_tag", &RecordForm::role_tag},
                               {"content_tag", &RecordForm::content_tag},
                               {"user_tag", &RecordForm::user_tag},
                               {"assistant_tag", &RecordForm::assistant_tag},
                               {"observation_tag", &RecordForm::observation_tag},
                               {"function_tag", &RecordForm::function_tag},
                               {"system_tag", &RecordForm::system_tag}};

// Of a hub that is not asked.
constexpr char kOtherHub[] = "om_hub_url";

// One entry, whose errors begin with where it is.
class Entry {
 public:
  Entry(const std::filesystem::path& info, const std::string& name, const Json& entry)
      : where_(Concat(info.string(), ": ", name)), entry_(entry) {
    if (!entry.is_object()) Refuse(Concat("is ", entry.dump().substr(0, 60), "; wanted an object"));
  }

  // As LLaMA-Factory chooses between its hubs. Empty: it is on none.
  std::string HubTitle() const {
    const bool hf = Has(entry_, "hf_hub_url"), ms = Has(entry_, "ms_hub_url");
    const bool modelscope = ms && (IsSwitchedOn("USE_MODELSCOPE_HUB") || !hf);
    if (!modelscope && (!hf || (Has(entry_, kOtherHub) && IsSwitchedOn("USE_OPENMIND_HUB")))) return "";
    const std::string id = TextAt(entry_, modelscope ? "ms_hub_url" : "hf_hub_url");
    const std::string subset = Has(entry_, "subset") ? TextAt(entry_, "subset") : "";
    const std::string split = Has(entry_, "split") ? TextAt(entry_, "split") : "train";
    std::string title = (modelscope ? "ms::" : "hf::") + id;
    if (!subset.empty()) title += ":" + subset + "/" + split;
    if (subset.empty() && split != "train") title += ":" + split;
    if (ParseHubSetName(title)) return title;
    Refuse(Concat("is ", title, " on a hub; wanted OWNER/NAME, and names of a subset and a split"));
  }

  void RefuseElsewhere() const {
    if (Has(entry_, kOtherHub)) {
      Refuse(Concat("is on a hub that is not asked (", kOtherHub, ": ", TextAt(entry_, kOtherHub),
                    "); get it with: openmind-cli pull ", TextAt(entry_, kOtherHub),
                    " --local-dir DIR, then write \"file_name\": \"DIR\" instead"));
    }
    if (Has(entry_, "script_url"))
      Refuse("has a script_url; code of data sets is never run: write its records into a file");
    if (Has(entry_, "cloud_file_name"))
      Refuse("has a cloud_file_name; copy that file here, and write \"file_name\" instead");
    if (!Has(entry_, "file_name")) Refuse("has no file_name; name its file, relative to dataset_info.json");
  }

  void RefuseUnknown(bool of_hub) const {
    for (const auto& [key, value] : entry_.items()) {
      const bool known =
          std::ranges::any_of(std::initializer_list<const char*>{"file_name", "formatting", "ranking", "split",
                                                                 "num_samples", "columns", "tags", "file_sha1"},
                              [&](const char* name) { return key == name; });
      const bool hubs = key == "hf_hub_url" || key == "ms_hub_url" || key == kOtherHub || key == "subset";
      if (known || value.is_null() || (of_hub && (hubs || key == "script_url" || key == "cloud_file_name"))) continue;
      if (of_hub && key == "folder")
        Refuse(Concat("has the folder ", value.dump().substr(0, 60), ", which is not ",
                      "supported; name the files in it: download it first"));
      const bool of_hubs = key == "subset" || key == "folder";
      Refuse(Concat("has the key ", key, ": ", value.dump().substr(0, 60),
                    of_hubs ? ", which is for data sets on a hub; remove it"
                            : ", which has no meaning; remove it, or correct its name"));
    }
    if (!of_hub && Has(entry_, "split") && entry_["split"] != "train") {
      Refuse(
          Concat("has the split ", entry_["split"].dump(), "; a file has only train: write those records into a file"));
    }
  }

  std::filesystem::path File(const std::filesystem::path& folder) const {
    const std::filesystem::path path = folder / TextAt(entry_, "file_name");
    if (PathExists(path)) return path;
    Refuse(Concat("names the file ", path.string(),
                  ", which does not exist; file names are relative to dataset_info.json"));
  }

  std::optional<int64_t> Count() const {
    if (!Has(entry_, "num_samples")) return std::nullopt;
    const Json& count = entry_["num_samples"];
    if (count.is_number_integer() && count.get<int64_t>() > 0) return count.get<int64_t>();
    Refuse(Concat("has num_samples: ", count.dump().substr(0, 60), "; wanted a whole number of at least 1"));
  }

  RecordForm Form() const {
    RecordForm form;
    const Json formatting = entry_.value("formatting", Json("alpaca"));
    form.conversations = formatting == "sharegpt";
    if (!form.conversations && formatting != "alpaca") {
      Refuse(Concat("has the formatting ", formatting.dump().substr(0, 60), "; wanted alpaca or sharegpt",
                    formatting == "openai" ? " (with tags for role and content, which reads such messages)" : ""));
    }
    const Json ranking = entry_.value("ranking", Json(false));
    if (!ranking.is_boolean()) Refuse(Concat("has ranking: ", ranking.dump().substr(0, 60), "; wanted true or false"));
    form.ranking = ranking.get<bool>();
    ReadNames("columns", kColumns, form);
    ReadNames("tags", kTags, form);
    Need(form);
    form.digest = entry_.dump();
    return form;
  }

  [[noreturn]] void Refuse(const std::string& why) const { throw InputError(where_, " ", why); }

 private:
  template <size_t N>
  void ReadNames(const char* key, const FormField (&fields)[N], RecordForm& form) const {
    if (!Has(entry_, key)) return;
    const Json& names = entry_[key];
    if (!names.is_object()) Refuse(Concat("has ", key, ": ", names.dump().substr(0, 60), "; wanted an object"));
    for (const auto& [name, value] : names.items()) {
      const bool known = std::ranges::any_of(fields, [&](const FormField& field) { return name == field.key; });
      if (!known || !(value.is_string() || value.is_null())) {
        Refuse(Concat("has in its ", key, " \"", name, "\": ", value.dump().substr(0, 60), "; wanted names of ", key,
                      ": ", Join(fields, ", ", [](const FormField& field) { return field.key; })));
      }
    }
    for (const FormField& field : fields) {
      form.*field.field = Has(names, field.key) ? names[field.key].template get<std::string>() : "";
    }
  }

  void Need(const RecordForm& form) const {
    const auto need = [&](const std::string& name, const char* where, const char* key) {
      if (name.empty()) Refuse(Concat("has no \"", key, "\" in its ", where, "; add it"));
    };
    if (form.ranking) {
      need(form.chosen, "columns", "chosen");
      need(form.rejected, "columns", "rejected");
    }
    if (!form.conversations) return need(form.prompt, "columns", "prompt");
    need(form.messages, "columns", "messages");
    for (const auto& [name, key] :
         {std::pair{&form.role_tag, "role_tag"}, std::pair{&form.content_tag, "content_tag"},
          std::pair{&form.user_tag, "user_tag"}, std::pair{&form.assistant_tag, "assistant_tag"}}) {
      need(*name, "tags", key);
    }
  }

  const std::string where_;
  const Json& entry_;
};

std::vector<std::string> StagesOfAnswers() {
  std::vector<std::string> names;
  for (const StageFacts& facts : AllStages()) {
    if (facts.of_answers()) names.emplace_back(facts.name);
  }
  return names;
}

void CheckForm(const Entry& entry, const RecordForm& form, const StageFacts& facts) {
  if (TrainsTexts(facts)) {
    entry.Refuse(Concat("describes conversations; stage ", facts.name,
                        " reads texts and labels by their own columns: name the file itself"));
  }
  if (form.ranking && !facts.of_answers()) {
    entry.Refuse(Concat("is a ranking set, of chosen and rejected answers; stage ", facts.name,
                        " wants others: set stage: ", Listed(StagesOfAnswers(), "or")));
  }
  if (!form.ranking && facts.records == Records::kPairs) {
    entry.Refuse(Concat("is not a ranking set; stage ", facts.name,
                        " wants chosen and rejected answers: \"ranking\": true, with their columns"));
  }
}

}  // namespace

DatasetInfo::DatasetInfo(const std::filesystem::path& path)
    : path_(IsDirectory(path) ? path / "dataset_info.json" : path) {
  if (!PathExists(path_)) {
    throw InputError("data.dataset_info: ", path_.string(),
                     " does not exist; name the file, or the directory that holds it");
  }
  entries_ = ReadJsonFile(path_.string());
  if (!entries_.is_object()) throw InputError(path_.string(), ": is not an object of data sets by their names");
}

std::string DatasetInfo::NamesLike(const std::string& name) const {
  std::vector<std::string> names;
  for (const auto& item : entries_.items()) names.push_back(item.key());
  const std::optional<std::string> nearest = Nearest(name, names);
  return Concat("is not a data set in ", path_.string(), nearest ? Concat(" (did you mean ", *nearest, "?)") : "");
}

std::string DatasetInfo::HubTitleOf(const std::string& name) const {
  return Entry(path_, name, entries_.at(name)).HubTitle();
}

DescribedSet DatasetInfo::Find(const std::string& name, const StageFacts& facts) const {
  const Entry entry(path_, name, entries_.at(name));
  const std::string title = entry.HubTitle();
  if (title.empty()) entry.RefuseElsewhere();
  entry.RefuseUnknown(!title.empty());
  RecordForm form = entry.Form();
  CheckForm(entry, form, facts);
  form.plain_text = facts.records == Records::kText;
  return {title.empty() ? entry.File(path_.parent_path()) : std::filesystem::path(), title, entry.Count(),
          std::make_shared<const RecordForm>(std::move(form))};
}

}  // namespace trireme
