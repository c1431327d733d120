// print.h makes exact text of steps written by hand, and for all algorithms and one to nine ranks
// forms that hold together: braces, declared nodes, XML that closes what it opens, and as many
// dashed lines as there are messages.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/builder.h"
#include "algorithms/messages.h"

namespace banyan::print_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Slice input(uint64_t offset, uint64_t size) {
  return {Space::kInput, offset, size};
}

Slice output(uint64_t offset, uint64_t size) {
  return {Space::kOutput, offset, size};
}

size_t occurrences(std::string_view text, std::string_view word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + word.size()))
    ++count;
  return count;
}

TEST(ToText, EveryOperation) {
  ScheduleBuilder builder;
  const Slice scratch = builder.scratch(40);
  const Slice wide = builder.scratch(80);
  builder.send(input(8, 40), 3);
  builder.recv(scratch, 1);
  builder.reduce(DataType::kFloat32, scratch, input(0, 40), output(0, 40));
  builder.decode(DataType::kBfloat16, input(40, 40), wide);
  builder.decode_add(DataType::kBfloat16, wide, scratch, wide);
  builder.encode(DataType::kBfloat16, wide, output(40, 40));
  builder.copy(output(40, 40), output(80, 40));
  EXPECT_EQ(to_text(std::move(builder).finish(), 2),
            "rank 2  s0: send 40 B to 3, input[8..48)\n"
            "rank 2  s1: recv 40 B from 1 -> scratch[0..40)\n"
            "rank 2  s2: reduce 40 B, scratch[0..40) + input[0..40) -> output[0..40)  after s1\n"
            "rank 2  s3: decode 80 B, input[40..80) -> scratch[64..144)\n"
            "rank 2  s4: decode_add 80 B, scratch[64..144) + scratch[0..40) -> scratch[64..144)"
            "  after s1, s3\n"
            "rank 2  s5: encode 40 B, scratch[64..144) -> output[40..80)  after s4\n"
            "rank 2  s6: copy 40 B, output[40..80) -> output[80..120)  after s5\n");
}

TEST(ToText, FusedOperations) {
  ScheduleBuilder builder;
  const Slice message = builder.scratch(40);
  const Slice narrow = builder.scratch(20);
  const Slice wide = builder.scratch(40);
  builder.recv(message, 1);
  builder.reduce(DataType::kFloat32, input(80, 40), message, output(0, 40));
  builder.decode(DataType::kFloat16, input(0, 20), wide);
  builder.recv(narrow, 4);
  builder.decode_add(DataType::kFloat16, wide, narrow, wide);
  EXPECT_EQ(to_text(fuse(std::move(builder).finish()), 0),
            "rank 0  s0: recv_reduce 40 B from 1, input[80..120) -> output[0..40)\n"
            "rank 0  s1: decode 40 B, input[0..20) -> scratch[128..168)\n"
            "rank 0  s2: recv_decode_add 20 B from 4, scratch[128..168) -> scratch[128..168)"
            "  after s1\n");
}

TEST(ToText, MessagesOfCodecs) {
  ScheduleBuilder builder;
  const Slice own = builder.wire_slot(20);
  const Slice theirs = builder.wire_slot(20);
  builder.encode_by(2, DataType::kFloat32, input(0, 40), own, builder.scratch(40));
  builder.send(own, 1);
  builder.recv(theirs, 3);
  builder.decode_by(2, DataType::kFloat32, own, output(0, 40));
  builder.decode_add_by(1, DataType::kFloat32, output(0, 40), theirs, output(0, 40));
  EXPECT_EQ(to_text(std::move(builder).finish(), 0),
            "rank 0  s0: encode up to 20 B by codec 2, input[0..40) -> slot 1, left over -> "
            "scratch[128..168)\n"
            "rank 0  s1: send up to 20 B to 1, slot 1  after s0\n"
            "rank 0  s2: recv up to 20 B from 3 -> slot 2\n"
            "rank 0  s3: decode 40 B by codec 2, slot 1 -> output[0..40)  after s0\n"
            "rank 0  s4: decode_add 40 B by codec 1, output[0..40) + slot 2 -> output[0..40)"
            "  after s2, s3\n");
}

TEST(ToText, NoSteps) {
  EXPECT_EQ(to_text(ScheduleBuilder().finish(), 7), "rank 7  no steps\n");
}

std::vector<int> all_of(int ranks) {
  return Group::everyone(ranks, 0).ranks;
}

std::vector<Schedule> schedules_of(const Algorithm& algorithm, const Problem& problem, int ranks) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < ranks; ++rank)
    schedules.push_back(build_schedule(problem, Group::everyone(ranks, rank), algorithm));
  return schedules;
}

// Calls a check with the schedules of each algorithm for each collective without lists.
void for_all(const std::vector<int>& sizes,
             const std::function<void(const std::vector<Schedule>&)>& check) {
  using enum Collective;
  for (const Collective collective : {kAllreduce, kReduce, kBroadcast, kAllgather, kReduceScatter,
                                      kAlltoall, kGather, kScatter, kBarrier}) {
    for (const Algorithm& algorithm : algorithms()) {
      if (!algorithm.fits(collective)) continue;
      for (const int ranks : sizes) {
        Problem problem;
        problem.collective = collective;
        problem.type = ranks % 2 == 0 ? DataType::kBfloat16 : DataType::kFloat32;
        problem.count = collective == kBarrier ? 0 : 13;
        SCOPED_TRACE(testing::Message()
                     << name_of(collective) << ' ' << algorithm.name << " on " << ranks);
        check(schedules_of(algorithm, problem, ranks));
      }
    }
  }
}

size_t sends_of(std::span<const Schedule> schedules) {
  size_t sends = 0;
  for (const Schedule& schedule : schedules)
    for (const Step& step : schedule.steps) sends += step.op == Op::kSend ? 1 : 0;
  return sends;
}

TEST(ToText, OneLineAStep) {
  for_all({1, 2, 5}, [](const std::vector<Schedule>& schedules) {
    for (size_t rank = 0; rank < schedules.size(); ++rank) {
      const std::string text = to_text(schedules[rank], static_cast<int>(rank));
      EXPECT_EQ(occurrences(text, "\n"), std::max<size_t>(1, schedules[rank].steps.size()));
      EXPECT_EQ(occurrences(text, "rank " + std::to_string(rank) + "  "), occurrences(text, "\n"));
    }
  });
}

TEST(Messages, EverySendMeetsAReceive) {
  for_all({1, 2, 3, 8, 9}, [](const std::vector<Schedule>& schedules) {
    const auto messages = match_messages(schedules, all_of(static_cast<int>(schedules.size())));
    EXPECT_EQ(messages.size(), sends_of(schedules));
    for (const auto& [from, to] : messages) {
      const Step& send = schedules[from.schedule].steps[from.step];
      const Step& receive = schedules[to.schedule].steps[to.step];
      EXPECT_EQ(send.op, Op::kSend);
      EXPECT_EQ(send.peer, static_cast<int>(to.schedule));
      EXPECT_EQ(receive.peer, static_cast<int>(from.schedule));
      EXPECT_NE(receive.op, Op::kSend);
    }
  });
}

TEST(Messages, DepthsGrowAlongEveryEdge) {
  for_all({2, 5, 8}, [](const std::vector<Schedule>& schedules) {
    const auto messages = match_messages(schedules, all_of(static_cast<int>(schedules.size())));
    const auto depths = depths_of(schedules, messages, {.dependency = 1, .message = 1});
    for (size_t i = 0; i < schedules.size(); ++i)
      for (uint32_t step = 0; step < schedules[i].steps.size(); ++step)
        for (const uint32_t next : schedules[i].successors_of(step))
          EXPECT_LT(depths[i][step], depths[i][next]);
    for (const auto& [from, to] : messages)
      EXPECT_LT(depths[from.schedule][from.step], depths[to.schedule][to.step]);
  });
}

// Each of two ranks receives before it sends: nothing can run, and printing still ends.
TEST(Messages, ACircleEnds) {
  std::vector<Schedule> schedules;
  for (const int rank : {0, 1}) {
    ScheduleBuilder builder;
    builder.recv(output(0, 4), 1 - rank);
    builder.send(output(0, 4), 1 - rank);
    schedules.push_back(std::move(builder).finish());
  }
  EXPECT_EQ(match_messages(schedules, all_of(2)).size(), 2U);
  EXPECT_THAT(to_svg(schedules, all_of(2), ""), HasSubstr("</svg>"));
  EXPECT_THAT(to_dot(schedules, all_of(2)), HasSubstr("r0_s1 -> r1_s0 [style=dashed];"));
}

TEST(Messages, MoreSendsThanReceives) {
  ScheduleBuilder sender;
  sender.send(input(0, 4), 1);
  sender.send(input(4, 4), 1);
  ScheduleBuilder receiver;
  receiver.recv(output(0, 4), 0);
  const std::vector<Schedule> schedules = {std::move(sender).finish(),
                                           std::move(receiver).finish()};
  const auto messages = match_messages(schedules, all_of(2));
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0].from.step, 0U);
}

TEST(ToDot, Small) {
  ScheduleBuilder zero;
  zero.send(input(0, 4), 1);
  ScheduleBuilder one;
  one.recv(output(0, 4), 0);
  one.copy(output(0, 4), output(4, 4));
  const std::vector<Schedule> schedules = {std::move(zero).finish(), std::move(one).finish()};
  EXPECT_EQ(to_dot(schedules, all_of(2)),
            "digraph schedule {\n"
            "  node [shape=box, fontname=\"monospace\", fontsize=10];\n"
            "  subgraph cluster_rank_0 {\n"
            "    label=\"rank 0\";\n"
            "    r0_s0 [label=\"s0: send 4 B to 1\\ninput[0..4)\"];\n"
            "  }\n"
            "  subgraph cluster_rank_1 {\n"
            "    label=\"rank 1\";\n"
            "    r1_s0 [label=\"s0: recv 4 B from 0\\n-> output[0..4)\"];\n"
            "    r1_s1 [label=\"s1: copy 4 B\\noutput[0..4) -> output[4..8)\"];\n"
            "    r1_s0 -> r1_s1;\n"
            "  }\n"
            "  r0_s0 -> r1_s0 [style=dashed];\n"
            "}\n");
}

void check_dot(const std::string& dot, size_t ranks, size_t messages) {
  EXPECT_TRUE(dot.starts_with("digraph schedule {\n"));
  EXPECT_EQ(occurrences(dot, "{"), occurrences(dot, "}"));
  EXPECT_EQ(occurrences(dot, "subgraph cluster_"), ranks);
  EXPECT_EQ(occurrences(dot, "style=dashed"), messages);
  EXPECT_EQ(occurrences(dot, "\"") % 2, 0U);
  std::set<std::string> declared;
  const std::regex node(R"(\n +(r\d+_\w+) \[label=)");
  for (std::sregex_iterator at(dot.begin(), dot.end(), node), end; at != end; ++at)
    EXPECT_TRUE(declared.insert((*at)[1]).second) << (*at)[1];
  const std::regex edge(R"(\n +(r\d+_s\d+) -> (r\d+_s\d+))");
  for (std::sregex_iterator at(dot.begin(), dot.end(), edge), end; at != end; ++at) {
    EXPECT_TRUE(declared.contains((*at)[1])) << (*at)[1];
    EXPECT_TRUE(declared.contains((*at)[2])) << (*at)[2];
  }
}

TEST(ToDot, HoldsTogether) {
  for_all({1, 2, 3, 5}, [](const std::vector<Schedule>& schedules) {
    check_dot(to_dot(schedules, all_of(static_cast<int>(schedules.size()))), schedules.size(),
              sends_of(schedules));
  });
}

std::string problem_of_tag(std::string_view tag, std::vector<std::string>* open) {
  if (tag.starts_with("/")) {
    if (open->empty() || open->back() != tag.substr(1)) return "closes " + std::string(tag);
    open->pop_back();
    return "";
  }
  const std::string text(tag);
  static const std::regex form(R"([a-zA-Z]+( [a-zA-Z0-9-]+="[^"<>&]*")*/?)");
  if (!std::regex_match(text, form)) return "bad tag " + text;
  std::set<std::string> names;
  static const std::regex attribute(R"( ([a-zA-Z0-9-]+)=")");
  for (std::sregex_iterator at(text.begin(), text.end(), attribute), end; at != end; ++at)
    if (!names.insert((*at)[1]).second) return "attribute twice in " + text;
  if (!tag.ends_with("/")) open->push_back(text.substr(0, text.find(' ')));
  return "";
}

// "" if the text is well-formed XML, as far as drawings need it.
std::string xml_problem(std::string_view xml) {
  constexpr std::string_view kDeclaration = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  if (!xml.starts_with(kDeclaration)) return "no declaration";
  xml.remove_prefix(kDeclaration.size());
  std::vector<std::string> open;
  size_t roots = 0;
  while (!xml.empty()) {
    const size_t begin = std::min(xml.find('<'), xml.size());
    const std::string text(xml.substr(0, begin));
    static const std::regex plain(R"(([^&<>]|&(lt|gt|amp|quot);)*)");
    if (!std::regex_match(text, plain)) return "bad text " + text;
    if (open.empty() && text.find_first_not_of('\n') != text.npos) return "text outside";
    if (begin == xml.size()) break;
    const size_t end = xml.find('>', begin);
    if (end == xml.npos) return "tag without end";
    if (open.empty()) ++roots;
    std::string problem = problem_of_tag(xml.substr(begin + 1, end - begin - 1), &open);
    if (!problem.empty()) return problem;
    xml.remove_prefix(end + 1);
  }
  if (!open.empty()) return open.back() + " stays open";
  return roots == 1 ? "" : std::to_string(roots) + " roots";
}

TEST(XmlProblem, FindsProblems) {
  const std::string head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  EXPECT_EQ(xml_problem(head + "<a b=\"1\"><c/>x &gt; y</a>\n"), "");
  for (const char* text : {"<a><b></a>", "<a>", "<a/><b/>", "<a b=1/>", "<a>x > y</a>", "<a>&</a>",
                           "<a", "</a>", "<a b=\"1\" b=\"2\"/>", "", "x<a/>", "<a>x</a>y"})
    EXPECT_NE(xml_problem(head + text), "") << text;
  EXPECT_NE(xml_problem("<a/>"), "");
}

// Gives for every message its first and last point's height. The legend's has one, too, and comes
// last.
std::vector<std::pair<int, int>> heights_of_messages(const std::string& svg) {
  std::vector<std::pair<int, int>> heights;
  const std::regex line(
      "points=\"[0-9]+,([0-9]+) (?:[0-9]+,[0-9]+ )*[0-9]+,([0-9]+)\"[^>]* marker-end");
  for (std::sregex_iterator at(svg.begin(), svg.end(), line), end; at != end; ++at)
    heights.emplace_back(std::stoi((*at)[1]), std::stoi((*at)[2]));
  if (!heights.empty()) heights.pop_back();
  return heights;
}

// Where things lie and what they cross is what the test pictures looks at.
TEST(ToSvg, HoldsTogether) {
  for_all({1, 2, 3, 4, 5, 6, 7, 8, 9}, [](const std::vector<Schedule>& schedules) {
    const std::string svg =
        to_svg(schedules, all_of(static_cast<int>(schedules.size())), "Title & more");
    EXPECT_EQ(occurrences(svg, ">Title &amp; more<"), 1U);
    size_t steps = 0;
    for (const Schedule& schedule : schedules) steps += schedule.steps.size();
    EXPECT_EQ(occurrences(svg, "height=\"34\""), steps);
    EXPECT_EQ(occurrences(svg, ">rank "), schedules.size());
    EXPECT_EQ(occurrences(svg, "marker-end"), sends_of(schedules) + 1);  // one in the legend
  });
}

TEST(ToSvg, IsWellFormedAndTimeRunsDownwards) {
  for_all({1, 3, 4}, [](const std::vector<Schedule>& schedules) {
    const std::string svg = to_svg(schedules, all_of(static_cast<int>(schedules.size())), "");
    EXPECT_EQ(xml_problem(svg), "");
    for (const auto& [from, to] : heights_of_messages(svg)) EXPECT_LT(from, to);
  });
}

TEST(Subset, OneRank) {
  Problem problem;
  problem.count = 100;
  const Algorithm& ring = algorithms()[static_cast<size_t>(find_algorithm("ring"))];
  const std::vector<Schedule> one = {build_schedule(problem, Group::everyone(5, 2), ring)};
  const std::vector<int> rank = {2};
  const std::string dot = to_dot(one, rank);
  check_dot(dot, 1, 0);
  EXPECT_THAT(dot, HasSubstr("label=\"rank 2\""));
  EXPECT_THAT(dot, HasSubstr("to 3"));
  EXPECT_THAT(dot, Not(HasSubstr("r3_")));
  const std::string svg = to_svg(one, rank, "");
  EXPECT_EQ(xml_problem(svg), "");
  const auto with_peer = std::count_if(one[0].steps.begin(), one[0].steps.end(),
                                       [](const Step& step) { return step.peer >= 0; });
  EXPECT_EQ(heights_of_messages(svg).size(), static_cast<size_t>(with_peer));
}

TEST(Subset, RanksInAnyOrder) {
  Problem problem;
  problem.count = 100;
  const Algorithm& ring = algorithms()[static_cast<size_t>(find_algorithm("ring"))];
  std::vector<Schedule> some;
  const std::vector<int> ranks = {3, 2};
  for (const int rank : ranks)
    some.push_back(build_schedule(problem, Group::everyone(5, rank), ring));
  const auto messages = match_messages(some, ranks);
  EXPECT_EQ(messages.size(), sends_of(std::span(some).subspan(1)));
  for (const auto& [from, to] : messages) {
    EXPECT_EQ(from.schedule, 1U);
    EXPECT_EQ(to.schedule, 0U);
  }
  check_dot(to_dot(some, ranks), 2, messages.size());
  EXPECT_EQ(xml_problem(to_svg(some, ranks, "")), "");
}

TEST(Subset, Nobody) {
  check_dot(to_dot({}, {}), 0, 0);
  EXPECT_EQ(xml_problem(to_svg({}, {}, "")), "");
}

}  // namespace
}  // namespace banyan::print_test
