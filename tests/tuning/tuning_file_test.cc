// The tuning file comes back as it was written, and what is wrong in one is named with its line.
// SPDX-License-Identifier: Apache-2.0

#include "src/tuning/tuning_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "algorithms/choice/explain.h"
#include "compression/codecs.h"
#include "src/base/file.h"
#include "src/tuning/codec_speeds.h"
#include "tests/support/temporary_folder.h"

namespace banyan::tuning_file_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TuningFile example() {
  TuningFile file;
  file.version = "0.1.0";
  file.tuned_on = {
      .cpu = "AMD \"EPYC\"", .cores = 2, .ranks = 4, .hosts = 1, .ppn = 4, .transports = "shm"};
  file.rules.push_back(
      {"allreduce size=0-12K ranks=4-4 : star",
       Measured{
           .bytes = 4096, .us = 12.5, .runs = 7, .runner_up = "direct", .runner_up_us = 14.25}});
  file.rules.push_back({"barrier : direct", std::nullopt});
  file.rules.push_back({"alltoall: ^bruck", Measured{.us = 0.001, .runs = 1}});
  return file;
}

// That text with `what` replaced, as a file would have it.
std::string with(std::string_view what, std::string_view by) {
  std::string text = to_json(example());
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

std::string error(std::string_view text) {
  const Result<TuningFile> file = parse_tuning(text);
  if (file.ok()) return "accepted";
  EXPECT_EQ(file.status().code(), Code::kInvalidArgument);
  return std::string(file.status().message());
}
// Gives the error of a text in which `what` stands, with something else in its place.
std::string error_of_changed(std::string text, std::string_view what, std::string_view by) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return at == std::string::npos ? std::string() : error(text.replace(at, what.size(), by));
}

TEST(TuningFile, ComesBackAsItWasWritten) {
  const Result<TuningFile> back = parse_tuning(to_json(example()));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(*back, example());
  const Result<TuningFile> empty = parse_tuning(to_json({}));
  ASSERT_TRUE(empty.ok()) << empty.status().message();
  EXPECT_EQ(*empty, TuningFile());
  EXPECT_EQ(empty->table(), "");
}

TuningFile with_measured_links() {
  TuningFile file = example();
  file.links.within = MeasuredLink{.latency_us = 0.25,
                                   .busy_latency_us = 0.5,
                                   .message_us = 0,
                                   .GBps = 8.5,
                                   .busy_GBps = 6.25,
                                   .pairs = 2,
                                   .spread = 0.02};
  file.links.between = MeasuredLink{.latency_us = 23.5,
                                    .busy_latency_us = 31,
                                    .message_us = 1.25,
                                    .GBps = 0.1195,
                                    .busy_GBps = 0.06,
                                    .pairs = 2,
                                    .spread = 0.5};
  return file;
}

TEST(TuningFile, KeepsLinks) {
  TuningFile file = with_measured_links();
  for (const bool within : {true, false})
    for (const bool between : {true, false}) {
      if (!within) file.links.within.reset();
      if (!between) file.links.between.reset();
      const Result<TuningFile> back = parse_tuning(to_json(file));
      ASSERT_TRUE(back.ok()) << back.status().message();
      EXPECT_EQ(*back, file);
      file = with_measured_links();
    }
}

MeasuredTier beyond(const std::string& name, double rate) {
  return {.name = name,
          .link = {.latency_us = 40,
                   .busy_latency_us = 50.5,
                   .message_us = 1.5,
                   .GBps = rate,
                   .busy_GBps = rate / 4,
                   .pairs = 8}};
}

TEST(TuningFile, KeepsLinksBeyondLevels) {
  TuningFile file = with_measured_links();
  std::string longest(kMostTierName, 'l');
  for (const std::string& name : {std::string("pod"), std::string("leaf"), std::string("a \"b\" "),
                                  longest, std::string("4"), std::string("5"), std::string("6")}) {
    file.links.beyond.push_back(beyond(name, 0.125));
    const Result<TuningFile> back = parse_tuning(to_json(file));
    ASSERT_TRUE(back.ok()) << back.status().message();
    EXPECT_EQ(*back, file);
  }
  file.links.within.reset();
  file.links.between.reset();
  EXPECT_EQ(*parse_tuning(to_json(file)), file);
  while (file.links.beyond.size() <= kMostTiers)
    file.links.beyond.push_back(beyond(fmt::format("tier{}", file.links.beyond.size()), 1));
  EXPECT_EQ(error(to_json(file)), "line 22: links beyond more than 8 levels; valid: at most 8");
}

TEST(TuningFile, NamesWhatIsWrongWithALinkBeyondALevel) {
  TuningFile file;
  file.links.beyond = {beyond("leaf", 0.5), beyond("pod", 0.25)};
  const std::string right = to_json(file);
  const auto error_with = [&](std::string_view what, std::string_view by) {
    return error_of_changed(right, what, by);
  };
  EXPECT_EQ(error_with("beyond pod", "beyond leaf"), "line 8: a second link 'beyond leaf'");
  EXPECT_EQ(error_with("beyond pod", "beyond "),
            "line 8: 'where' is beyond ''; right is a level's name of 1 to 64 bytes");
  EXPECT_EQ(error_with("beyond pod", "beyond " + std::string(65, 'p')),
            "line 8: 'where' is beyond '" + std::string(65, 'p') +
                "'; right is a level's name of 1 to 64 bytes");
  EXPECT_EQ(error_with("beyond pod", "beyond"),
            "line 8: 'where' is 'beyond'; valid: within, between, beyond LEVEL");
  EXPECT_EQ(error_with("beyond pod", "beyond p\\u0007"),
            "line 8: 'where' is longer than 256 bytes or holds a control character");
  EXPECT_EQ(error_with("\"GBps\": 0.25", "\"GBps\": 0"),
            "line 9: 'GBps' is 0; right is a number from 1e-06 to 1000000000");
}

TEST(TuningFile, NamesWhatIsWrongWithALink) {
  const std::string right = to_json(with_measured_links());
  const auto error_with = [&](std::string_view what, std::string_view by) {
    return error_of_changed(right, what, by);
  };
  EXPECT_EQ(error_with("\"within\"", "\"in\""),
            "line 6: 'where' is 'in'; valid: within, between, beyond LEVEL");
  EXPECT_EQ(error_with("\"within\"", "\"between\""), "line 8: a second link 'between'");
  EXPECT_EQ(error_with("\"GBps\": 8.5", "\"GBps\": 0"),
            "line 7: 'GBps' is 0; right is a number from 1e-06 to 1000000000");
  EXPECT_EQ(error_with("\"GBps\": 8.5", "\"GBps\": 1e-300"),
            "line 7: 'GBps' is 1e-300; right is a number from 1e-06 to 1000000000");
  EXPECT_EQ(error_with("\"GBps\": 8.5", "\"GBps\": -1"),
            "line 7: 'GBps' is -1; right is a number from 0");
  EXPECT_EQ(error_with("\"GBps\": 8.5", "\"GBps\": 1e300"),
            "line 7: 'GBps' is 1e+300; right is a number from 1e-06 to 1000000000");
  EXPECT_EQ(error_with("\"message_us\": 0", "\"message_us\": 1e308"),
            "line 6: 'message_us' is 1e+308; right is a number from 0 to 1000000000");
  EXPECT_EQ(error_with("\"pairs\": 2", "\"pairs\": 0"), "line 7: 'pairs' is 0; right is 1 or more");
  EXPECT_EQ(error_with(", \"spread\": 0.02", ""), "line 6: a link without the member 'spread'");
  EXPECT_EQ(error_with("\"spread\": 0.02", "\"spread\": 0.02, \"us\": 1"),
            "line 7: a link has no member 'us'; valid: where, latency_us, busy_latency_us, "
            "message_us, GBps, busy_GBps, pairs, spread");
  EXPECT_EQ(error_with("\"links\": [", "\"links\": [[],"),
            "line 5: a link is an array; right is an object");
}

TuningFile with_ring_and_sums() {
  TuningFile file = example();
  file.links.sums = MeasuredSums{.GBps = 21.5, .far_GBps = 4.25};
  file.ring = {"node1", "node3.example.org", "node2"};
  return file;
}

TEST(TuningFile, KeepsARingAndSums) {
  TuningFile file = with_ring_and_sums();
  for (const bool ring : {true, false}) {
    if (!ring) file.ring.clear();
    const Result<TuningFile> back = parse_tuning(to_json(file));
    ASSERT_TRUE(back.ok()) << back.status().message();
    EXPECT_EQ(*back, file);
  }
}

TEST(TuningFile, NamesWhatIsWrongWithARingOrSums) {
  const std::string right = to_json(with_ring_and_sums());
  const auto error_with = [&](std::string_view what, std::string_view by) {
    return error_of_changed(right, what, by);
  };
  EXPECT_EQ(error_with("21.5", "0"),
            "line 5: 'GBps' is 0; right is a number from 1e-06 to 1000000000");
  EXPECT_EQ(error_with("4.25", "\"4\""), "line 5: 'far_GBps' is a string; right is a number");
  EXPECT_EQ(error_with(", \"far_GBps\": 4.25", ""), "line 5: 'sums' without the member 'far_GBps'");
  EXPECT_EQ(error_with("\"far_GBps\": 4.25", "\"far_GBps\": 4.25, \"us\": 1"),
            "line 5: 'sums' has no member 'us'; valid: GBps, far_GBps");
  EXPECT_EQ(error_with("{\"GBps\": 21.5, \"far_GBps\": 4.25}", "[]"),
            "line 5: 'sums' is an array; right is an object");
  EXPECT_EQ(error_with("\"node2\"", "\"node1\""), "line 6: 'ring' names 'node1' twice");
  EXPECT_EQ(error_with("\"node2\"", "2"),
            "line 6: a host of 'ring' is a number; right is a string");
  for (const std::string& name : {std::string(), std::string("a\\u0007"), std::string(257, 'a')})
    EXPECT_THAT(error_with("node2", name),
                HasSubstr("right is a host's name of 1 to 256 bytes without control characters"));
  EXPECT_EQ(error_with("[\"node1\", \"node3.example.org\", \"node2\"]", "\"node1\""),
            "line 6: 'ring' is a string; right is an array");
  std::string many, long_ones;
  for (int host = 0; host < 513; ++host) many += fmt::format("\"n{}\", ", host);
  for (int host = 0; host < 40; ++host)
    long_ones += fmt::format("\"{}{}\", ", std::string(120, 'n'), host);
  EXPECT_EQ(error_with("\"node1\", ", many), "line 6: 'ring' names 515 hosts; valid: at most 512");
  EXPECT_THAT(error_with("\"node1\", ", long_ones),
              HasSubstr("characters of names in 'ring'; valid: at most 4096"));
}

TuningFile with_codecs() {
  TuningFile file = example();
  file.links.codecs = {{{.codec = kBf16}, 8.25, 9.5}, {{.codec = kInt4, .stochastic = true}, 2, 3}};
  return file;
}

TEST(TuningFile, KeepsCodecs) {
  const Result<TuningFile> back = parse_tuning(to_json(with_codecs()));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(*back, with_codecs());
}

TEST(TuningFile, NamesWhatIsWrongWithCodecs) {
  const auto error_with = [](std::string_view what, std::string_view by) {
    return error_of_changed(to_json(with_codecs()), what, by);
  };
  EXPECT_THAT(error_with("bf16", "bf17"), StartsWith("line 6: 'bf17' at character 1"));
  EXPECT_EQ(error_with("bf16", "off"),
            "line 6: 'codec' is 'off'; right is a codec, in at most 16 bytes");
  EXPECT_THAT(error_with("bf16", "topk:0.0123456789"), HasSubstr("in at most 16 bytes"));
  EXPECT_EQ(error_with("int4+sr", "bf16"), "line 7: a second codec 'bf16'");
  EXPECT_EQ(error_with("8.25", "0"),
            "line 6: 'encode_GBps' is 0; right is a number from 1e-06 to 1000000000");
  EXPECT_EQ(error_with(", \"decode_GBps\": 3", ""),
            "line 7: a codec without the member 'decode_GBps'");
  std::string many;
  for (int i = 1; i <= 7; ++i)
    many += fmt::format("{{\"codec\": \"sign:{}\", \"encode_GBps\": 1, \"decode_GBps\": 1}}, ", i);
  EXPECT_EQ(error_with("{\"codec\": \"bf16\"", many + "{\"codec\": \"bf16\""),
            "line 7: more codecs than 8; valid: at most 8");
}

// What `auto` goes by is there wherever links between hosts are.
TEST(CodecSpeeds, AreMeasuredWhereTheyAreMissing) {
  MeasuredLinks links;
  complete(links);
  EXPECT_TRUE(links.codecs.empty()) << "nothing is chosen by them on one host";
  links.between = MeasuredLink{.GBps = 1};
  complete(links);
  ASSERT_EQ(links.codecs.size(), 3U);
  for (const MeasuredCodec& codec : links.codecs)
    for (const double rate : {codec.encode_GBps, codec.decode_GBps}) {
      EXPECT_GT(rate, 1e-3);
      EXPECT_LT(rate, 10000);
    }
  const std::vector<MeasuredCodec> once = links.codecs;
  complete(links);
  EXPECT_EQ(links.codecs, once) << "what is known stays";
}

TEST(CodecSpeeds, AreMeasuredOfAllThatAreExplained) {
  const std::vector<CodecChoice> choices = explained_codecs({});
  const std::vector<MeasuredCodec> speeds = measure_codecs(choices);
  ASSERT_EQ(speeds.size(), choices.size());
  for (size_t i = 0; i < speeds.size(); ++i) {
    EXPECT_EQ(speeds[i].choice, choices[i]);
    EXPECT_GT(speeds[i].encode_GBps, 1e-4);
    EXPECT_GT(speeds[i].decode_GBps, 1e-4);
  }
}

TEST(TuningFile, NeedsLittleWhereItIsWrittenByHand) {
  const Result<TuningFile> file = parse_tuning(
      R"({"schema": 1, "fingerprint": {"cpu": "", "cores": 0, "ranks": 0, "hosts": 0,
          "transports": ""}, "rules": [{"rule": "  ring "}]})");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->rules, (std::vector<TuningRule>{{"ring", std::nullopt}}));
}

TEST(TuningFile, ItsRulesAreThoseOfTheGrammar) {
  const Result<Rules> rules = parse_table(example().table());
  ASSERT_TRUE(rules.ok()) << rules.status().message();
  ASSERT_EQ(rules->size(), 3U);
  EXPECT_EQ((*rules)[0].size_most, 12U * 1024);
  EXPECT_EQ((*rules)[0].ranks_least, 4);
  EXPECT_TRUE((*rules)[2].excluding);
  EXPECT_TRUE(parse_table("")->empty());
  EXPECT_THAT(std::string(parse_table("ring; rign").status().message()),
              StartsWith("rule 2: unknown algorithm 'rign' at position 2; valid: "));
  EXPECT_THAT(std::string(parse_table("ring;").status().message()),
              StartsWith("rule 2: 0 rules in one text"));
}

TEST(TuningFile, NamesWhatIsWrongAndWhere) {
  EXPECT_EQ(error("[]"), "line 1: not a tuning file: right is an object with the member 'schema'");
  EXPECT_THAT(error("{\"rules\": ["), StartsWith("line 1: not JSON: "));
  EXPECT_EQ(error(with("\"schema\": 1", "\"schema\": 2")),
            "line 2: this version reads schema 1 only");
  EXPECT_EQ(error(with("\"schema\": 1", "\"schema\": \"1\"")),
            "line 2: this version reads schema 1 only");
  EXPECT_EQ(error(with("\"fingerprint\"", "\"fingerprnt\"")),
            "line 4: a tuning file has no member 'fingerprnt'; valid: schema, fingerprint, rules, "
            "library, links, sums, codecs, codec_times, ring");
  EXPECT_TRUE(parse_tuning(with(", \"ppn\": 4", "")).ok());
  EXPECT_EQ(error(with("\"ppn\": 4", "\"ppn\": 4.5")),
            "line 4: 'ppn' is 4.5; right is a whole number from 0 to 1073741824");
  EXPECT_EQ(error(with("\"cores\": 2, ", "")), "line 4: 'fingerprint' without the member 'cores'");
  EXPECT_EQ(error(with("\"cores\": 2", "\"cores\": 2.5")),
            "line 4: 'cores' is 2.5; right is a whole number from 0 to 1073741824");
  EXPECT_EQ(error(with("\"ranks\": 4", "\"ranks\": -4")),
            "line 4: 'ranks' is -4; right is a number from 0");
  EXPECT_EQ(error(with("\"cores\": 2", "\"cores\": \"2\"")),
            "line 4: 'cores' is a string; right is a number");
  EXPECT_EQ(error(with("\"shm\"", "\"a\\u0007\"")),
            "line 4: 'transports' is longer than 256 bytes or holds a control character");
  EXPECT_EQ(error(with("\"runs\": 7", "\"runs\": 7, \"run\": 7")),
            "line 7: rule 1 has no member 'run'; valid: rule, bytes, measured_us, runs, "
            "runner_up, runner_up_us");
  EXPECT_EQ(error(with("\"runs\": 7", "\"runs\": 7, \"runs\": 7")),
            "line 7: the key 'runs' is there twice");
  EXPECT_EQ(error(with("\"rule\": \"barrier : direct\"", "\"bytes\": 4")),
            "line 8: rule 2 without the member 'rule'");
  EXPECT_THAT(error(with("barrier : direct", "barrier : ring")),
              StartsWith("line 8: rule 2: algorithm 'ring' at position 11 does no barrier; "));
  EXPECT_THAT(error(with("barrier : direct", "bar\\nrier : direct")),
              StartsWith("line 8: rule 2: unknown collective 'bar' at position 1; "));
  EXPECT_EQ(error(with("barrier : direct", "ring; direct")),
            "line 8: rule 2: 2 rules in one text; valid: one, without ';'");
  EXPECT_EQ(error(with("barrier : direct", "")),
            "line 8: rule 2: 0 rules in one text; valid: one, without ';'");
  EXPECT_EQ(error(with("12.500", "1e999")).substr(0, 18), "line 7: not JSON: ");
}

std::string many_rules(size_t count, const std::string& rule) {
  TuningFile file;
  file.rules.assign(count, {rule, std::nullopt});
  return to_json(file);
}

TEST(TuningFile, HasLimits) {
  EXPECT_EQ(error(many_rules(kMostTuningRules, "ring")), "accepted");
  EXPECT_EQ(error(many_rules(kMostTuningRules + 1, "ring")),
            "line 5: 513 rules; valid: at most 512");
  EXPECT_EQ(error(std::string(kMostTuningBytes + 1, ' ')), "larger than 1048576 bytes");
  EXPECT_THAT(error(std::string(100000, '[')), HasSubstr("nested more than 4 deep"));
  std::string values = "{\"schema\": 1, \"rules\": [0";
  for (int i = 0; i < 10000; ++i) values += ",0";
  EXPECT_THAT(error(values), HasSubstr("more than 5266 values"));
  const std::string long_rule = "ring" + std::string(kMostRulesText - 9, ' ') + ",star";
  EXPECT_THAT(error(many_rules(9, long_rule)), HasSubstr("characters of rules; valid: at most"));
  EXPECT_THAT(error(many_rules(1, long_rule + std::string(10, ' ') + ",star")),
              HasSubstr("characters of rules; valid: at most 4096"));
}

TEST(TuningFile, AnswersWhateverIsInIt) {
  const std::string good = to_json(example());
  int accepted = 0;
  for (size_t at = 0; at < good.size(); ++at) {
    EXPECT_FALSE(at + 2 < good.size() && parse_tuning(good.substr(0, at)).ok()) << at;
    for (const char letter : {'\0', '"', '}', '9', '\xff'}) {
      std::string text = good;
      text[at] = letter;
      if (parse_tuning(text).ok()) {
        ++accepted;
      } else {
        EXPECT_THAT(error(text), HasSubstr("line ")) << text;
      }
    }
  }
  EXPECT_GT(accepted, 0);
}

TEST(TuningFile, SaysInWhatMachinesDiffer) {
  const Fingerprint tuned = example().tuned_on;
  EXPECT_EQ(difference(tuned, tuned), "");
  Fingerprint here = tuned;
  here.ranks = 8;
  here.transports = "ucx";
  EXPECT_EQ(difference(tuned, here), "8 ranks instead of 4, transports ucx instead of shm");
  here = tuned;
  here.cpu = "";
  here.cores = 3;
  here.hosts = 2;
  EXPECT_EQ(difference(tuned, here),
            "processor an unknown one instead of AMD \"EPYC\", 3 cores instead of 2, 2 hosts "
            "instead of 1");
  // 3 + 1 ranks on 2 + 2; of a file that does not say it nobody knows.
  here = tuned;
  here.ppn = 3;
  EXPECT_EQ(difference(tuned, here), "at most 3 ranks of a host instead of 4");
  here.ppn = 0;
  EXPECT_EQ(difference(tuned, here), "");
  EXPECT_EQ(difference(here, tuned), "");
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  return names;
}

TEST(TuningFile, IsReplacedAsAWhole) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path().string() + "/tune.json";
  for (int times = 0; times < 2; ++times) {
    TuningFile file = example();
    file.tuned_on.ranks += times;
    const Status written = write_tuning_file(path, file);
    ASSERT_TRUE(written.ok()) << written.message();
    const Result<TuningFile> back = read_tuning_file(path);
    ASSERT_TRUE(back.ok()) << back.status().message();
    EXPECT_EQ(*back, file);
    EXPECT_EQ(names_in(folder.path().string()), std::vector<std::string>{"tune.json"});
  }
  // What a link names is replaced, not the link.
  const std::string link = folder.path().string() + "/link.json";
  ASSERT_EQ(::symlink("tune.json", link.c_str()), 0);
  ASSERT_TRUE(write_tuning_file(link, {}).ok());
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(*read_tuning_file(path), TuningFile());
}

TEST(TuningFile, ThatCannotBeWrittenLeavesNothing) {
  const test::TemporaryFolder folder;
  for (const std::string& path : {folder.path().string() + "/no/tune.json", folder.path().string(),
                                  std::string("/dev/null")}) {
    const Status written = write_tuning_file(path, example());
    EXPECT_FALSE(written.ok()) << path;
    EXPECT_THAT(std::string(written.message()), StartsWith(path + ": "));
    EXPECT_FALSE(check_replaceable(path).ok()) << path;
  }
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_TRUE(check_replaceable(folder.path().string() + "/tune.json").ok());
  EXPECT_TRUE(names_in(folder.path().string()).empty());
}

TEST(TuningFile, IsReadWithoutWaiting) {
  const test::TemporaryFolder folder;
  const std::string pipe = folder.path().string() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path :
       {pipe, folder.path().string(), folder.path().string() + "/none.json",
        std::string("/dev/zero")}) {
    const Result<TuningFile> file = read_tuning_file(path);
    ASSERT_FALSE(file.ok()) << path;
    EXPECT_THAT(std::string(file.status().message()), StartsWith(path + ": "));
  }
}

}  // namespace
}  // namespace banyan::tuning_file_test
