// The command line: what is accepted, and every mistake with the exact line that the user sees.
#include "core/cli/parse.h"

#include <gflags/gflags.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/cli/example_commands.h"

namespace trireme {
namespace {

using Words = std::vector<std::string>;

const std::vector<Command>& Table() {
  static const std::vector<Command> table = ExampleCommands();
  return table;
}

Invocation Parse(const Words& words) { return ParseCommandLine(Table(), words, "1.2.3"); }

struct ErrorCase {
  std::string name;
  Words words;
  std::string wanted;
};

const ErrorCase kErrors[] = {
    {"NoCommand", {}, "no command given; see trireme --help"},
    {"UnknownCommand", {"tran"}, "unknown command 'tran'; did you mean 'train'?"},
    {"NothingNear", {"frobnicate"}, "unknown command 'frobnicate'; known: check, train, merge, bench comm, bench step"},
    {"HalfACommand", {"bench"}, "'bench' alone is not a command; wanted one of bench comm, bench step"},
    {"UnknownSecondWord", {"bench", "com"}, "unknown command 'bench com'; did you mean 'bench comm'?"},
    {"FarSecondWord", {"bench", "frobnicate"}, "unknown command 'bench frobnicate'; known: bench comm, bench step"},
    {"UnknownOption", {"train", "r.yaml", "--wrld=2"}, "unknown option --wrld; did you mean --world?"},
    {"UnknownSet", {"train", "r.yaml", "--sett", "a=b"}, "unknown option --sett; did you mean --set?"},
    {"UnknownFarOption", {"train", "r.yaml", "--frobnicate"}, "unknown option --frobnicate; see trireme train --help"},
    {"UnknownShortOption", {"train", "-x"}, "unknown option -x; see trireme train --help"},
    {"UnknownOptionBeforeCommand", {"--verison"}, "unknown option --verison; did you mean --version?"},
    {"OptionOfAnotherSystem",
     {"train", "r.yaml", "--lora_rank", "8"},
     "unknown option --lora_rank; in Trireme it is tuning.rank; write it into RUN.yaml, or --set KEY=VALUE"},
    {"OptionOfAnotherSystemWithDashes",
     {"train", "--tensor-model-parallel-size=2"},
     "unknown option --tensor-model-parallel-size; in Trireme it is parallel.tensor; write it into RUN.yaml, or --set "
     "KEY=VALUE"},
    {"OptionThatIsNotNeeded",
     {"train", "--trust_remote_code"},
     "unknown option --trust_remote_code; leave it out: code in a model's directory is never run"},
    {"OptionThatIsAKey",
     {"train", "--optimizer.lr", "1"},
     "unknown option --optimizer.lr; write --set optimizer.lr=VALUE"},
    {"StageAsCommand",
     {"sft", "--model", "a"},
     "unknown command 'sft'; write stage: sft into RUN.yaml and start trireme train RUN.yaml"},
    {"CommandOfAnotherSystem", {"infer"}, "unknown command 'infer'; use trireme generate --model DIR"},
    {"OptionOfAnother", {"check", "--dry-run"}, "unknown option --dry-run; see trireme check --help"},
    {"SetWithoutConfig", {"check", "--set", "a=b"}, "unknown option --set; see trireme check --help"},
    {"ValueMissing", {"train", "r.yaml", "--world"}, "--world: wanted a value, as in --world N"},
    {"ValueIsAnOption", {"train", "--world", "--dry-run"}, "--world: wanted a value, as in --world N"},
    {"SwitchWithValue", {"train", "--dry-run=yes"}, "--dry-run=yes: --dry-run takes no value"},
    {"Twice", {"train", "--world=1", "--world=1", "r.yaml"}, "--world was given twice; keep one"},
    {"SwitchTwice", {"train", "--dry-run", "--dry-run", "r.yaml"}, "--dry-run was given twice; keep one"},
    {"MissingPositional", {"train", "--dry-run"}, "trireme train: missing RUN.yaml, the run's configuration"},
    {"MissingOption", {"merge", "a"}, "trireme merge: missing --model DIR, the model"},
    {"TooMany", {"train", "a", "b"}, "'b' is one argument too many; see trireme train --help"},
    {"TooManyForNone", {"check", "b"}, "'b' is one argument too many; see trireme check --help"},
    {"LogLevel",
     {"--log-level=loud", "check"},
     "--log-level loud: wanted info, warning or error; by default info on rank 0 and warning on the others"},
    {"LogDirectory",
     {"check", "--log-dir", "no/such/dir"},
     "--log-dir no/such/dir: wanted an existing directory; the log is also written to files there, one per "
     "rank"},
};

void PrintTo(const ErrorCase& test, std::ostream* out) { *out << test.wanted; }

class ParseErrorTest : public testing::TestWithParam<ErrorCase> {};

TEST_P(ParseErrorTest, SaysExactly) {
  try {
    Parse(GetParam().words);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), GetParam().wanted);
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ParseErrorTest, testing::ValuesIn(kErrors),
                         [](const auto& info) { return info.param.name; });

TEST(ParseTest, OptionsAndPositionalsInAnyOrder) {
  for (const Words& words :
       {Words{"train", "r.yaml", "--world", "8", "--dry-run"}, Words{"train", "--dry-run", "--world=8", "r.yaml"}}) {
    const Invocation invocation = Parse(words);
    ASSERT_NE(invocation.command, nullptr);
    EXPECT_EQ(invocation.command->name, "train");
    EXPECT_EQ(invocation.arguments.value("RUN.yaml"), "r.yaml");
    EXPECT_EQ(invocation.arguments.integer("world", 1), 8);
    EXPECT_TRUE(invocation.arguments.has("dry-run"));
  }
}

TEST(ParseTest, AbsentArgumentsAreEmpty) {
  const Arguments arguments = Parse({"train", "r.yaml"}).arguments;
  EXPECT_FALSE(arguments.has("dry-run"));
  EXPECT_EQ(arguments.value("world", "none"), "none");
  EXPECT_EQ(arguments.integer("world", 4), 4);
  EXPECT_TRUE(arguments.overrides().empty());
  EXPECT_FALSE(Parse({"merge", "a", "--model=m"}).arguments.has("TO"));
}

TEST(ParseTest, RepeatedSetKeepsItsOrder) {
  const Arguments arguments = Parse({"train", "--set", "a=1", "r.yaml", "--set=b=[2, 3]", "--set", "a=4"}).arguments;
  EXPECT_EQ(arguments.overrides(), (Words{"a=1", "b=[2, 3]", "a=4"}));
}

TEST(ParseTest, ValuesThatLookOdd) {
  EXPECT_EQ(Parse({"merge", "a", "--model", "-1"}).arguments.value("model"), "-1");
  EXPECT_EQ(Parse({"merge", "a", "--model=--x"}).arguments.value("model"), "--x");
  EXPECT_EQ(Parse({"merge", "a", "--model="}).arguments.value("model"), "");
  EXPECT_EQ(Parse({"merge", "-", "--model=m"}).arguments.value("FROM"), "-");
}

TEST(ParseTest, TwoDashesEndOptions) {
  const Arguments arguments = Parse({"merge", "--model=m", "--", "--from", "--"}).arguments;
  EXPECT_EQ(arguments.value("FROM"), "--from");
  EXPECT_EQ(arguments.value("TO"), "--");
}

TEST(ParseTest, ARepeatablePositionalTakesAllThatRemain) {
  const std::vector<Command> commands = {
      {.name = "board",
       .summary = "Shows.",
       .options = {{.name = "port", .value_name = "N", .help = "the port"}},
       .positionals = {{.name = "FIRST", .help = "one"}, {.name = "OUTPUT", .help = "runs", .repeatable = true}}}};
  const Arguments arguments = ParseCommandLine(commands, {"board", "a", "b", "--port", "1", "c"}, "1").arguments;
  EXPECT_EQ(arguments.value("FIRST"), "a");
  EXPECT_EQ(arguments.values("OUTPUT"), (Words{"b", "c"}));
  EXPECT_THROW(ParseCommandLine(commands, {"board", "a"}, "1"), Error);
}

TEST(ParseTest, CommandsOfTwoWords) { EXPECT_EQ(Parse({"bench", "step"}).command->name, "bench step"); }

TEST(ParseTest, ProcessOptionsReachTheirFlagsAnywhere) {
  gflags::FlagSaver saver;
  std::string level;
  Parse({"--log-level", "error", "check"});
  gflags::GetCommandLineOption("log_level", &level);
  EXPECT_EQ(level, "error");
  Parse({"check", "--log-level=info"});
  gflags::GetCommandLineOption("log_level", &level);
  EXPECT_EQ(level, "info");
}

TEST(ParseTest, HelpAndVersionRunNothing) {
  for (const Words& words : {Words{"--help"}, Words{"-h"}, Words{"--version"}, Words{"train", "--help"},
                             Words{"train", "-h"}, Words{"bench", "--help"}, Words{"bench", "comm", "--help"}}) {
    const Invocation invocation = Parse(words);
    EXPECT_EQ(invocation.command, nullptr) << words.back();
    EXPECT_NE(invocation.text, "") << words.back();
  }
  EXPECT_EQ(Parse({"--version"}).text, "trireme 1.2.3\n");
}

TEST(ArgumentsTest, IntegersAreStrict) {
  for (const char* text : {"", "x", "8x", "1.5", "0", "-3", "99999999999999999999"}) {
    const Arguments arguments = Parse({"train", "r.yaml", Concat("--world=", text)}).arguments;
    try {
      arguments.integer("world", 1, 1);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), Concat("--world ", text, ": wanted a whole number of at least 1"));
    }
  }
}

TEST(ArgumentsTest, NumbersAreStrict) {
  const auto parse = [](const char* text) {
    return Parse({"train", "r.yaml", Concat("--world=", text)}).arguments.number("world", 1, 0.5);
  };
  EXPECT_EQ(parse("0.5"), 0.5);
  EXPECT_EQ(parse("1e2"), 100);
  EXPECT_EQ(Parse({"train", "r.yaml"}).arguments.number("world", 7), 7);
  for (const char* text : {"", "x", "8x", "0.4", "-3", "nan", "inf"}) {
    try {
      parse(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), Concat("--world ", text, ": wanted a number of at least 0.5"));
    }
  }
}

TEST(ArgumentsDeathTest, UndescribedNameIsABug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(Parse({"check"}).arguments.value("wrold"), "check failed: .*'wrold'");
}

TEST(ParseTest, OverridesNameAKeyOrWhatHoldsIt) {
  const Arguments arguments =
      Parse({"train", "r.yaml", "--set", "model.dtype=fp32", "--set", "run={steps: 2}"}).arguments;
  EXPECT_TRUE(arguments.Overrides("model.dtype"));
  EXPECT_TRUE(arguments.Overrides("run.steps"));
  EXPECT_FALSE(arguments.Overrides("model.init"));
  EXPECT_FALSE(arguments.Overrides("model.dtype_of_head"));
  EXPECT_FALSE(arguments.Overrides("runner.steps"));
}

}  // namespace
}  // namespace trireme
