// What a user gave another system: its settings in order, each with where it stood, and what started it. Knows neither
// their meaning nor ours.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace trireme {

struct Setting {
  std::string name;                 // "lora_rank": without dashes in front, _ for -; of verl with its sections
  std::vector<std::string> values;  // none for a bare flag
  std::string origin;               // "--lora_rank 8", as it was written

  // All values as one text; "true" for a bare flag.
  std::string value() const;
  bool off() const;  // false, none, null, 0 or empty: the option is there, and does nothing
};

struct Given {
  std::string command;   // "sft" of "swift sft"
  std::string launcher;  // words before the program: "torchrun --nproc_per_node 8"
  std::map<std::string, std::string> environment;
  std::vector<Setting> settings;
  std::vector<std::string> notes;  // what the reader of the input could not follow

  const Setting* Find(const std::string& name) const;  // the last one of that name, as parsers have it
  std::string Value(const std::string& name, const std::string& otherwise) const;
  double Number(const std::string& name, double otherwise) const;  // an input error if it is none
  bool IsOn(const std::string& name, bool otherwise = false) const;
};

// "--lora-rank 8 --packing -x=1" as settings; a list ends at the next word with dashes.
std::vector<Setting> SettingsOf(const std::vector<std::string>& words);
// Hydra's words: "a.b=c", "+a.b=[c, d]"; names keep their sections.
std::vector<Setting> SettingsOfHydra(const std::vector<std::string>& words);
// Keys of a flat YAML or JSON file; `name` is the file's.
std::vector<Setting> SettingsOfYaml(const std::string& text, const std::string& name);

}  // namespace trireme
