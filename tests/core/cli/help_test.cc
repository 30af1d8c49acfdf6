// Help texts: complete, and with every key for commands that take a configuration.
#include "core/cli/help.h"

#include <gtest/gtest.h>

#include "core/config/help.h"
#include "tests/core/cli/example_commands.h"

namespace trireme {
namespace {

bool Contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const Command& Named(const std::vector<Command>& commands, const std::string& name) {
  for (const Command& command : commands) {
    if (command.name == name) return command;
  }
  throw std::out_of_range(name);
}

TEST(HelpTest, ProgramListsEveryCommand) {
  const std::string help = ProgramHelp(ExampleCommands());
  for (const Command& command : ExampleCommands()) {
    EXPECT_TRUE(Contains(help, "  " + command.name + " ")) << command.name;
    EXPECT_TRUE(Contains(help, command.summary.substr(0, command.summary.find('.')))) << command.name;
    EXPECT_FALSE(Contains(help, "More about it")) << command.name;
  }
  EXPECT_TRUE(Contains(help, "--log-level LEVEL"));
  EXPECT_TRUE(Contains(help, "--version"));
}

TEST(HelpTest, FirstWordNarrowsTheList) {
  const std::string help = ProgramHelp(ExampleCommands(), "bench");
  EXPECT_TRUE(Contains(help, "bench comm"));
  EXPECT_TRUE(Contains(help, "bench step"));
  EXPECT_FALSE(Contains(help, "merge"));
  EXPECT_EQ(ProgramHelp(ExampleCommands(), "frobnicate"), "");
}

TEST(HelpTest, CommandShowsAllItsArguments) {
  const std::string help = CommandHelp(Named(ExampleCommands(), "merge"));
  EXPECT_EQ(help.substr(0, help.find('\n')), "usage: trireme merge FROM [TO] --model DIR");
  EXPECT_TRUE(Contains(help, "  FROM   first\n  TO     second\n"));
  EXPECT_TRUE(Contains(help, "  --model DIR   the model\n"));
  EXPECT_FALSE(Contains(help, "--set"));
  EXPECT_FALSE(Contains(help, "parallel.tensor"));
}

TEST(HelpTest, ConfigCommandShowsEveryKey) {
  const std::string help = CommandHelp(Named(ExampleCommands(), "train"));
  EXPECT_EQ(help.substr(0, help.find('\n')),
            "usage: trireme train RUN.yaml [--dry-run] [--world N] [--set key=value]...");
  EXPECT_TRUE(Contains(help, ConfigHelp()));
}

}  // namespace
}  // namespace trireme
