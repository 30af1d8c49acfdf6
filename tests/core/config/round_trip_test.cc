// Property: any Config, written as YAML and parsed again, is the same Config. Values are drawn from the whole
// range that the schema allows, strings from the characters that are special in YAML.
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>

#include "core/config/load.h"
#include "core/config/options.pb.h"
#include "core/config/paths.h"
#include "core/config/print.h"
#include "core/config/schema.h"

namespace trireme {
namespace {

using google::protobuf::Message;
using google::protobuf::Reflection;

class RandomConfig {
 public:
  explicit RandomConfig(uint64_t seed) : random_(seed) {}

  Config Draw() {
    Config config = DefaultConfig();
    FillSection(config);
    return config;
  }

 private:
  void FillSection(Message& section) {
    const Reflection& reflection = *section.GetReflection();
    for (int i = 0; i < section.GetDescriptor()->field_count(); ++i) {
      const FieldDescriptor& field = *section.GetDescriptor()->field(i);
      if (IsSection(field)) {
        FillSection(*reflection.MutableMessage(&section, &field));
      } else if (field.is_repeated()) {
        reflection.ClearField(&section, &field);
        for (uint64_t n = random_() % 4; n > 0; --n) AddItem(field, section);
      } else {
        FillScalar(field, section);
      }
    }
  }

  void AddItem(const FieldDescriptor& field, Message& section) {
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
      section.GetReflection()->AddInt32(&section, &field, DrawInteger<int32_t>(field));
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
      section.GetReflection()->AddInt64(&section, &field, DrawInteger<int64_t>(field));
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
      section.GetReflection()->AddDouble(&section, &field, DrawDouble(field));
    } else {
      section.GetReflection()->AddString(&section, &field, DrawText());
    }
  }

  void FillScalar(const FieldDescriptor& field, Message& section) {
    const Reflection& reflection = *section.GetReflection();
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_BOOL:
        return reflection.SetBool(&section, &field, random_() % 2 == 0);
      case FieldDescriptor::CPPTYPE_INT32:
        return reflection.SetInt32(&section, &field, DrawInteger<int32_t>(field));
      case FieldDescriptor::CPPTYPE_INT64:
        return reflection.SetInt64(&section, &field, DrawInteger<int64_t>(field));
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return reflection.SetDouble(&section, &field, DrawDouble(field));
      case FieldDescriptor::CPPTYPE_ENUM:
        return reflection.SetEnum(&section, &field,
                                  field.enum_type()->value(random_() % field.enum_type()->value_count()));
      default:
        return reflection.SetString(&section, &field, DrawText());
    }
  }

  template <typename Integer>
  Integer DrawInteger(const FieldDescriptor& field) {
    const auto& options = field.options();
    const auto least = static_cast<Integer>(options.GetExtension(schema::min));
    const auto greatest = options.HasExtension(schema::max) ? static_cast<Integer>(options.GetExtension(schema::max))
                                                            : std::numeric_limits<Integer>::max();
    return std::uniform_int_distribution<Integer>(least, greatest)(random_);
  }

  // Any bit pattern that the field accepts: tiny, huge and odd numbers alike.
  double DrawDouble(const FieldDescriptor& field) {
    for (;;) {
      const uint64_t bits = random_() >> (random_() % 3);
      double value;
      static_assert(sizeof(value) == sizeof(bits));
      std::memcpy(&value, &bits, sizeof(value));
      if (std::isfinite(value) && InRange(field, value)) return value;
    }
  }

  std::string DrawText() {
    static const std::vector<std::string> pieces = {
        "a",  "Z",  "7",    "_",    ".",      "/",      "-",  " ",  ":",    ": ",   "#",   " #",   ",",
        "[",  "]",  "{",    "}",    "'",      "\"",     "\\", "\n", "\t",   "\r",   "&",   "*",    "!",
        "|",  ">",  "%",    "@",    "`",      "?",      "- ", "~",  "null", "true", "1e5", "0x1F", "é",
        "漢", "😀", "\x01", "\x7f", "\u0085", "\u2028", "<<", "=",  "---",  "..."};
    std::string text;
    for (uint64_t n = random_() % 6; n > 0; --n) text += pieces[random_() % pieces.size()];
    return text;
  }

  std::mt19937_64 random_;
};

TEST(RoundTripTest, RandomConfigsReadBackEqual) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Config config = RandomConfig(seed).Draw();
    ExpandPaths(config);  // parsing expands ~
    const std::string yaml = ToYaml(config);
    google::protobuf::util::MessageDifferencer differencer;
    std::string differences;
    differencer.ReportDifferencesToString(&differences);
    ASSERT_TRUE(differencer.Compare(ParseConfig(yaml, "run.yaml"), config)) << "seed " << seed << "\n"
                                                                            << differences << yaml;
  }
}

TEST(RoundTripTest, NumbersKeepAPointForOtherReaders) {
  Config config = DefaultConfig();
  config.mutable_optimizer()->set_eps(1e-8);
  config.mutable_optimizer()->set_clip(1);
  const std::string yaml = ToYaml(config);
  EXPECT_NE(yaml.find("  eps: 1.0e-08\n"), std::string::npos) << yaml;
  EXPECT_NE(yaml.find("  clip: 1.0\n"), std::string::npos) << yaml;
}

TEST(RoundTripTest, NamesEveryKey) {
  const std::string yaml = ToYaml(DefaultConfig());
  for (const std::string& key : KeysUnder(*Config::descriptor())) {
    const std::string name = key.substr(key.rfind('.') + 1);
    EXPECT_NE(yaml.find(name + ":"), std::string::npos) << key;
  }
}

}  // namespace
}  // namespace trireme
