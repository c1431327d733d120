// What a call gets, and why, beside what the model says of all algorithms.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/choice/explain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "algorithms/choice/compression.h"
#include "algorithms/choice/machine_cost.h"
#include "algorithms/choice/show_explanation.h"
#include "compression/codecs.h"
#include "tests/algorithms/cost_models.h"

namespace banyan::explain_test {
namespace {

constexpr uint64_t kSizes[] = {4,        1 << 10, 4 << 10,  16 << 10,
                               64 << 10, 1 << 20, 16 << 20, 64 << 20};

Rules rules(std::string_view text) {
  const auto parsed = parse_rules(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  return parsed.ok() ? *parsed : Rules();
}

std::string name(int algorithm) {
  return std::string(algorithms()[static_cast<size_t>(algorithm)].name);
}

const ExplainedAlgorithm& find(const Explanation& explanation, std::string_view wanted) {
  return *std::find_if(explanation.algorithms.begin(), explanation.algorithms.end(),
                       [&](const auto& each) { return name(each.algorithm) == wanted; });
}

// Whatever decides: what is kept is no faster, by the model, than what a call gets.
TEST(Explain, ChosenIsWhatACallGetsAndComesFirst) {
  const Rules some = rules("allreduce size=1M-: binomial, star; ^ring");
  int others = 0;
  for (const Collective collective : collectives())
    for (const uint64_t bytes : kSizes)
      for (const int ranks : {2, 3, 8})
        for (const Rules& ruled : {Rules(), some}) {
          const Problem problem = call(collective, bytes, ranks);
          const Explanation explanation = explain({.problem = problem,
                                                   .ranks = ranks,
                                                   .medium = Medium::kSharedCores,
                                                   .rules = ruled,
                                                   .model = memory_model(ranks, 2)});
          const Choice choice = choose(problem, ranks, Medium::kSharedCores, ruled);
          ASSERT_EQ(explanation.algorithms.size(), algorithms().size());
          const ExplainedAlgorithm& first = explanation.algorithms.front();
          EXPECT_FALSE(first.excluded);
          EXPECT_EQ(first.algorithm, choice.algorithm);
          EXPECT_EQ(explanation.chosen, choice.algorithm);
          others += explanation.fastest != explanation.chosen ? 1 : 0;
          for (const ExplainedAlgorithm& each : explanation.algorithms) {
            if (each.excluded) {
              EXPECT_FALSE(each.why.empty());
            } else {
              EXPECT_GE(each.predicted_us, first.predicted_us);
            }
            if (each.algorithm == explanation.fastest) {
              EXPECT_EQ(each.predicted_us, explanation.fastest_us);
            } else if (each.predicted_us > 0) {
              EXPECT_GE(each.predicted_us, explanation.fastest_us);
            }
          }
          EXPECT_NEAR(explanation.percent_of_bound, 100 * explanation.bound.us / first.predicted_us,
                      1e-9);
          EXPECT_GT(explanation.percent_of_bound, 0);
          EXPECT_LE(explanation.percent_of_bound, 100.0001);
        }
  EXPECT_GT(others, 0);
}

// A name that means another one there is what the call gets all the same.
TEST(Explain, OfARuleThatNamesOneByLevels) {
  const Explanation explanation = explain({.problem = call(Collective::kAllreduce, 1 << 20, 4),
                                           .ranks = 4,
                                           .medium = Medium::kSharedCores,
                                           .rules = rules("hierarchical"),
                                           .model = memory_model(4, 2)});
  EXPECT_EQ(explanation.chosen, find_algorithm("hierarchical"));
  EXPECT_FALSE(explanation.algorithms.front().excluded);
  EXPECT_GT(explanation.percent_of_bound, 0);
}

TEST(Explain, RulesLeaveAlgorithmsOut) {
  const Problem problem = call(Collective::kAllreduce, 1 << 20, 4);
  const auto with = [&](std::string_view text) {
    return explain({.problem = problem,
                    .ranks = 4,
                    .medium = Medium::kSharedCores,
                    .rules = rules(text),
                    .model = memory_model(4, 2)});
  };
  EXPECT_EQ(with("ring").chosen, find_algorithm("ring"));
  const Explanation cut = with("ring(seg=16K)");
  EXPECT_EQ(cut.algorithms.front().parameters.segment, 16U << 10);
  EXPECT_EQ(cut.algorithms.front().why,
            "what a call gets, by the BANYAN_ALGO rule 1, with seg=16K");
  EXPECT_NE(cut.algorithms.front().predicted_us, with("ring").algorithms.front().predicted_us);
  const Explanation without = with("^circulant");
  for (const ExplainedAlgorithm& each : without.algorithms)
    if (each.algorithm == find_algorithm("circulant")) {
      EXPECT_TRUE(each.excluded);
      EXPECT_EQ(each.why, "excluded by BANYAN_ALGO rule 1");
    }
}

// Lengths of segments count, and a rule of the tuning file names as well behind one that leaves
// out.
TEST(Explain, FastestIsWithTheBestSegmentsAndNamesAreOfAnyRule) {
  std::vector<int> labels;
  for (int rank = 0; rank < 32; ++rank) labels.push_back(rank / 8);
  const Hierarchy hosts = Hierarchy::of_labels("host", labels);
  int cut = 0;
  for (const uint64_t bytes : kSizes) {
    const Problem problem = call(Collective::kAllreduce, bytes, 32);
    const CostModel model = pure(1, 1e-4, 1e-3);
    const Explanation explanation = explain({.problem = problem,
                                             .ranks = 32,
                                             .medium = Medium::kNetwork,
                                             .hierarchy = hosts,
                                             .model = model});
    EXPECT_DOUBLE_EQ(explanation.fastest_us, predict(problem, explanation.fastest, 32, model,
                                                     &hosts, explanation.fastest_parameters));
    for (const ExplainedAlgorithm& row : explanation.algorithms) {
      if (row.predicted_us == 0) continue;
      EXPECT_LE(explanation.fastest_us, row.predicted_us);
    }
    const Parameters best{.segment = best_segment(problem, 32, model, &hosts)};
    if (best.segment == 0) continue;
    const double us = predict(problem, find_algorithm("hierarchical"), 32, model, &hosts, best);
    EXPECT_LE(explanation.fastest_us, us);
    cut += explanation.fastest_parameters.segment != 0 ? 1 : 0;
  }
  EXPECT_GT(cut, 0);

  const Explanation ruled = explain({.problem = call(Collective::kAllreduce, 1024, 4),
                                     .ranks = 4,
                                     .rules = join_rules(rules("^star"), rules("allreduce: ring")),
                                     .model = memory_model(4, 4)});
  EXPECT_EQ(ruled.chosen, find_algorithm("ring"));
  for (const ExplainedAlgorithm& row : ruled.algorithms)
    EXPECT_EQ(row.excluded, row.algorithm != ruled.chosen) << row.why;
}

// Hosts under other numbers are the same hosts.
TEST(Explain, DoesNotDependOnHowHostsAreCalled) {
  const std::vector<int> one = {0, 0, 1, 1, 2, 2}, other = {7, 7, 3, 3, 5, 5};
  const Hierarchy a = Hierarchy::of_labels("host", one), b = Hierarchy::of_labels("host", other);
  for (const uint64_t bytes : kSizes) {
    const Problem problem = call(Collective::kAllreduce, bytes, 6);
    CallSite site{.problem = problem,
                  .ranks = 6,
                  .medium = Medium::kNetwork,
                  .hierarchy = a,
                  .model = pure(5, 1e-4, 1e-3)};
    const Explanation first = explain(site);
    site.hierarchy = b;
    const Explanation second = explain(site);
    EXPECT_EQ(first.chosen, second.chosen);
    EXPECT_EQ(first.bound.us, second.bound.us);
  }
}

// Without a model nothing is predicted, so nothing is left out for its time.
TEST(Explain, ListsAllAlgorithmsChosenFirst) {
  for (const Collective collective : collectives())
    for (const int ranks : {2, 5}) {
      const Problem problem = call(collective, 400, ranks);
      const auto list = explain({.problem = problem, .ranks = ranks}).algorithms;
      ASSERT_EQ(list.size(), algorithms().size());
      EXPECT_EQ(list[0].algorithm, choose(problem, ranks, Medium::kMemory, {}).algorithm);
      EXPECT_EQ(list[0].why, "what a call gets, by the default table");
      EXPECT_FALSE(list[0].excluded);
      std::set<int> seen;
      for (const ExplainedAlgorithm& each : list) {
        const Algorithm& algorithm = algorithms()[static_cast<size_t>(each.algorithm)];
        EXPECT_TRUE(seen.insert(each.algorithm).second);
        EXPECT_EQ(each.excluded, !algorithm.fits(collective) || algorithm.by_levels);
        EXPECT_FALSE(each.excluded && each.why.empty());
        EXPECT_EQ(each.predicted_us, 0);
        EXPECT_EQ(each.size.has_value() && each.size->rounds > 0, !each.excluded)
            << name(each.algorithm);
      }
      const auto place = [&](const ExplainedAlgorithm& each) {
        return std::tuple(each.excluded, !fits(each.algorithm, collective), each.algorithm);
      };
      EXPECT_TRUE(std::is_sorted(list.begin() + 1, list.end(), [&](const auto& a, const auto& b) {
        return place(a) < place(b);
      }));
    }
}

TEST(Explain, SaysWhyNot) {
  const auto of_broadcast = [](Rules ruled, int own = -1) {
    return explain({.problem = call(Collective::kBroadcast, 4, 4),
                    .ranks = 4,
                    .rules = std::move(ruled),
                    .algorithm = own});
  };
  const Explanation some = of_broadcast(rules("barrier:direct;^direct,ring"));
  EXPECT_EQ(name(some.chosen), "binomial");
  EXPECT_EQ(some.algorithms[0].why, "what a call gets, by the BANYAN_ALGO rule 2");
  EXPECT_TRUE(find(some, "direct").excluded);
  EXPECT_EQ(find(some, "direct").why, "excluded by BANYAN_ALGO rule 2");
  EXPECT_TRUE(find(some, "bruck").excluded);
  EXPECT_EQ(find(some, "bruck").why, "does no broadcast");
  EXPECT_FALSE(find(some, "bruck").size);
  const Explanation lists = explain({.problem = call(Collective::kAlltoallv, 4, 4), .ranks = 4});
  for (const char* passes_on : {"bruck", "hierarchical"})
    EXPECT_EQ(find(lists, passes_on).why,
              "does no alltoallv: who passes blocks on would need the counts of others");
  EXPECT_FALSE(find(some, "circulant").excluded);
  EXPECT_EQ(find(some, "circulant").why, "");
  // A call that names one goes before rules, as it does when it is made.
  const Explanation own = of_broadcast(rules("^ring"), find_algorithm("ring"));
  EXPECT_EQ(name(own.chosen), "ring");
  EXPECT_EQ(own.algorithms[0].why, "what a call gets, by the call itself");
  EXPECT_EQ(find(own, "binomial").why, "the call itself names ring");
}

TEST(Explain, CountsRoundsAndBytes) {
  const auto without_check = [](Collective collective, uint64_t bytes, int ranks) {
    Problem problem = call(collective, bytes, ranks);
    problem.check = false;
    return explain({.problem = problem, .ranks = ranks});
  };
  Explanation all = without_check(Collective::kAllreduce, 400, 5);
  EXPECT_EQ(find(all, "ring").size->rounds, 8U);
  EXPECT_EQ(find(all, "ring").size->bytes_sent, 640U);
  EXPECT_EQ(find(all, "circulant").size->bytes_sent, 640U);
  EXPECT_GE(find(all, "circulant").size->steps, 12U);
  all = without_check(Collective::kAllreduce, 400, 8);
  EXPECT_EQ(find(all, "circulant").size->rounds, 6U);
  EXPECT_EQ(find(all, "recursive_doubling").size->rounds, 3U);
  EXPECT_EQ(find(all, "recursive_doubling").size->bytes_sent, 1200U);
  all = without_check(Collective::kBroadcast, 400, 8);
  EXPECT_EQ(find(all, "binomial").size->rounds, 3U);
  EXPECT_EQ(find(all, "binomial").size->bytes_sent, 1200U);
  EXPECT_EQ(find(all, "direct").size->rounds, 1U);
}

TEST(Explain, BuildsSchedulesWithTheParametersAndTheHostsOfTheCall) {
  const auto first = [](std::string_view text, int ranks, uint64_t bytes, const Hierarchy& hosts) {
    return *explain({.problem = call(Collective::kAllreduce, bytes, ranks),
                     .ranks = ranks,
                     .medium = hosts.depth() > 0 ? Medium::kNetwork : Medium::kMemory,
                     .rules = rules(text),
                     .hierarchy = hosts})
                .algorithms.front()
                .size;
  };
  const ScheduleSize plain = first("ring", 4, 1 << 20, {});
  const ScheduleSize cut = first("ring(seg=64K)", 4, 1 << 20, {});
  EXPECT_EQ(cut.bytes_sent, plain.bytes_sent);
  EXPECT_GE(cut.steps, 3 * plain.steps);
  // Two thirds of the vector inside, a sixth to the other host, and as much back.
  const Hierarchy hosts = Hierarchy::of_labels("host", std::vector<int>{0, 0, 0, 1, 1, 1});
  EXPECT_EQ(first("allreduce:hierarchical", 6, 1200, hosts).bytes_sent, 2U * (800 + 200));
}

TEST(Explain, BuildsNoSchedulesOfManyRanks) {
  const auto of_barrier = [](int ranks) {
    return CallSite{.problem = call(Collective::kBarrier, 0, ranks), .ranks = ranks};
  };
  const CallSite many = of_barrier(kMostRanksBuilt + 1);
  const Explanation explanation = explain(many);
  EXPECT_FALSE(explanation.algorithms[0].size);
  EXPECT_FALSE(find(explanation, "direct").size);
  EXPECT_FALSE(find(explanation, "direct").excluded);
  EXPECT_NE(show_explanation(many, explanation)
                .find("schedules of more than 256 ranks are not built, so rounds, steps and bytes"),
            std::string::npos);
  EXPECT_GT(explain(of_barrier(kMostRanksBuilt)).algorithms[0].size->steps, 0U);
}

// At the size that was measured, of the rule that decides, and of the one behind a '^'.
TEST(Explain, KnowsWhatTheDecidingRuleTook) {
  Rules file = rules("allreduce: ring");
  file[0].measured =
      Measured{.bytes = 1024, .us = 12.5, .runs = 7, .runner_up = "star", .runner_up_us = 14.25};
  for (const Rules& variable : {Rules(), rules("^direct")})
    for (const uint64_t bytes : {1024, 2048}) {
      const CallSite site{.problem = call(Collective::kAllreduce, bytes, 4),
                          .ranks = 4,
                          .rules = join_rules(variable, file),
                          .model = memory_model(4, 4)};
      const Explanation explanation = explain(site);
      for (const ExplainedAlgorithm& each : explanation.algorithms) {
        const std::string which = name(each.algorithm);
        const bool known = bytes == 1024 && (which == "ring" || which == "star");
        ASSERT_EQ(each.measured_us.has_value(), known) << which;
        if (known) {
          EXPECT_EQ(*each.measured_us, which == "ring" ? 12.5 : 14.25);
        }
      }
      EXPECT_EQ(show_explanation(site, explanation).find("measured us") != std::string::npos,
                bytes == 1024);
    }
}

// Four hosts whose links carry 1 Gb/s.
CallSite coded_site(const char* compression) {
  const MeasuredLink link{
      .latency_us = 10, .busy_latency_us = 10, .message_us = 1, .GBps = 0.125, .busy_GBps = 0.125};
  const Hierarchy hosts = Hierarchy::of_labels("host", std::vector<int>{0, 1, 2, 3});
  MeasuredLinks links{.between = link, .sums = MeasuredSums{.GBps = 20, .far_GBps = 5}};
  links.codecs = {{{.codec = kBf16}, 8, 10}, {{.codec = kInt8}, 4, 6}, {{.codec = kInt4}, 3, 4}};
  CallSite site{.problem = call(Collective::kAllreduce, 1 << 20, 4),
                .ranks = 4,
                .medium = Medium::kNetwork,
                .hierarchy = hosts,
                .measured = measured_network(links, 1, hosts)};
  site.problem.compression = *parse_compression(compression);
  site.model = site.measured->model;
  site.codecs = links.codecs;
  return site;
}

const ExplainedCodec& find_codec(const Explanation& explanation, std::string_view wanted) {
  return *std::find_if(explanation.codecs.begin(), explanation.codecs.end(),
                       [&](const auto& each) { return each.name == wanted; });
}

TEST(Explain, HasAllCodecsWhereACallMayGoBySome) {
  const CallSite site = coded_site("int8");
  const Explanation explanation = explain(site);
  ASSERT_EQ(explanation.codecs.size(), 13U);
  const ExplainedCodec& first = explanation.codecs.front();
  EXPECT_EQ(first.name, "int8");
  EXPECT_TRUE(first.chosen);
  EXPECT_EQ(first.why, "what a call gets, by the compression");
  EXPECT_EQ(explanation.algorithms.front().predicted_us, first.predicted_us);
  EXPECT_EQ(explanation.percent_of_bound, 0) << "the bound is that of exact calls";
  // 64 superblocks, of which three quarters leave, and 16 sums for three ranks.
  EXPECT_EQ(first.bytes_sent, (48U + 48U) * 4160U);
  const ExplainedCodec& exact = find_codec(explanation, "off");
  EXPECT_EQ(exact.bytes_sent, 2U * 3U << 18);
  EXPECT_GT(exact.predicted_us, 3 * first.predicted_us);
  EXPECT_EQ(exact.why, "left out: int8 is asked for");
  // As many bytes of sums as there are values that somebody keeps.
  const ExplainedCodec& few = find_codec(explanation, "topk:0.01");
  EXPECT_NEAR(static_cast<double>(*few.bytes_sent), (1 + 3.94) * 6 * 0.0075 * (1 << 18), 100);
  EXPECT_EQ(find_codec(explanation, "threshold:T").why,
            "left out: int8 is asked for; if 0.01 of the values are kept");
  EXPECT_EQ(find_codec(explain(coded_site("topk:0.1:fp16")), "topk:0.1:fp16").chosen, true);
  EXPECT_TRUE(explain(coded_site("off")).codecs.empty());
  // Pairs that share a host, where int8 travels: half a vector inside and a quarter outside, twice.
  CallSite pairs = coded_site("inter=topk:0.01,intra=int8");
  pairs.hierarchy = Hierarchy::of_labels("host", std::vector<int>{0, 0, 1, 1});
  const ExplainedCodec inside = explain(pairs).codecs.front();
  EXPECT_EQ(inside.name, "topk:0.01");
  EXPECT_NEAR(static_cast<double>(*inside.bytes_sent),
              2 * 32 * 4160 + (1 + 1.99) * 6 * 0.01 * (1 << 16), 100);
  EXPECT_EQ(inside.law, "all but 0.01 of a rank's values; inside 2 c', c' = 4.9e-05");
  pairs.problem.compression = *parse_compression("inter=int8,intra=int8");
  const Explanation both = explain(pairs);
  EXPECT_EQ(both.codecs.front().law, "3 c, c = 4.9e-05") << "each level's sums lose once more";
  EXPECT_EQ(find_codec(both, "int4").law, "2 c + 2 c' = 1.9e-02");
  EXPECT_NE(show_explanation(pairs, both).find("its power, c': the same inside hosts;"),
            std::string::npos);
  pairs.problem.compression = *parse_compression("inter=int8");
  EXPECT_EQ(explain(pairs).codecs.front().law, "2 c, c = 4.9e-05");
  CallSite bound = site;
  bound.problem.compression = within_bound(*parse_compression("auto"), true, 0.01);
  const Explanation kept = explain(bound);
  EXPECT_EQ(kept.codecs.front().name, "relative:0.01");
  EXPECT_EQ(kept.codecs.front().predicted_us, 0) << "data decide how long messages are";
  EXPECT_EQ(kept.codecs.front().law, "at most the bound");
  EXPECT_EQ(find_codec(kept, "int8").why, "left out: relative:0.01 is asked for");
  CallSite integers = site;
  integers.problem.type = DataType::kInt32;
  const Explanation none = explain(integers);
  EXPECT_TRUE(none.codecs.empty());
  EXPECT_NE(
      show_explanation(integers, none)
          .find("\n# exact: codecs are for sums of float32, float16 and bfloat16 from 4K on\n"),
      std::string::npos);
}

TEST(ShowExplanation, HasATableOfCodecs) {
  const CallSite site = coded_site("auto");
  const std::string text = show_explanation(site, explain(site));
  EXPECT_EQ('\n' + text.substr(text.find("codec  ")), R"(
codec              bytes sent predicted us  error                             why
int4                   221184      2091.44  2 c, c = 9.6e-03                  what a call gets, by the compression; auto: int4 predicted 2091.44 us, exact predicted 12599.04 us
randk:0.01              15729       368.92  all but 0.01 of a rank's values   left out: auto takes off, bf16, int8 or int4
onebit                  55302       563.35  at most 2 c, c = 3.6e-01          left out: auto takes off, bf16, int8 or int4
threshold:T             58303       656.23  a rank's values below T           left out: auto takes off, bf16, int8 or int4; if 0.01 of the values are kept
sign:T                  50451       656.23  what a rank's values are not T    left out: auto takes off, bf16, int8 or int4; if 0.01 of the values are kept
topk:0.01               58303       656.23  all but 0.01 of a rank's values   left out: auto takes off, bf16, int8 or int4
dyn8                   399360      3315.87  2 c, c = 1.2e-04                  left out: auto takes off, bf16, int8 or int4
e4m3                   399360      3315.87  2 c, c = 6.8e-04                  left out: auto takes off, bf16, int8 or int4
e5m2                   399360      3315.87  2 c, c = 2.7e-03                  left out: auto takes off, bf16, int8 or int4
int8                   399360      3429.46  2 c, c = 4.9e-05
fp16                   786432      6412.44  2 c, c = 4.3e-08                  left out: auto takes off, bf16, int8 or int4
bf16                   786432      6425.55  2 c, c = 2.8e-06
off                   1572864     12599.04  none
# c: what one encoding of normal data loses of its power; ranks do not add to that
# how fast codecs are was measured on a core of this host
a call gets direct(codec=int4)
)");
}

TEST(ShowExplanation, IsOneLineWhereThereIsNothingToChoose) {
  const auto shown = [](const CallSite& site) { return show_explanation(site, explain(site)); };
  Problem message = call(Collective::kAllreduce, 64, 4);
  message.collective = Collective::kSend;
  EXPECT_EQ(shown({.problem = message, .ranks = 4, .transports = "shm"}),
            "# send of 64 bytes (16 float32) on 4 ranks over shm: a message, which needs no "
            "algorithm\n");
  EXPECT_EQ(shown({.problem = call(Collective::kBarrier, 0, 1)}),
            "# barrier on 1 rank: a copy, since one rank needs no algorithm\n");
}

// With a model, and then without one, but with what a rule of a tuning file took.
TEST(ShowExplanation, IsShownWhole) {
  CallSite site{.problem = call(Collective::kAllgather, 4096, 4),
                .ranks = 4,
                .medium = Medium::kNetwork,
                .rules = rules("^circulant"),
                .hierarchy = Hierarchy::of_labels("host", std::vector<int>{0, 0, 1, 1}),
                .model = pure(5, 1e-4, 1e-3),
                .transports = "shm,ucx"};
  EXPECT_EQ('\n' + show_explanation(site, explain(site), "# one thing that is known\n"), R"(
# allgather of 4K bytes (1024 float32) on 4 ranks (2 hosts of 2) over shm,ucx
# one thing that is known
# in memory: by a table, unchecked on this machine
# over the network: nothing was measured
# steps and bytes are those of rank 0
algorithm          rounds steps bytes sent predicted us  why
hierarchical            5    11      12288        34.01  what a call gets, by the BANYAN_ALGO rule 1
star                    2     8      49152        50.96
direct                  1    10      12288        21.38  left out: predicted faster, which does not decide
bruck                   2     9      12288        30.48  left out: predicted faster, which does not decide
ring                    4    13      12288        32.29  left out: predicted faster, which does not decide
torus                   3    31      12288        33.43  left out: predicted faster, which does not decide
circulant               3    11      12288        35.48  left out: excluded by BANYAN_ALGO rule 1
recursive_doubling      -     -          -            -  left out: does no allgather
binomial                -     -          -            -  left out: does no allgather
double_tree             -     -          -            -  left out: does no allgather
pairwise                -     -          -            -  left out: does no allgather
dissemination           -     -          -            -  left out: does no allgather
leaders                 -     -          -            -  left out: does no allgather
a call gets hierarchical: 24.1 % of the bound of 8.19 us (edge of a host, table)
the model's fastest: direct, 21.38 us
)");
  Rules file = rules("allgather: ring");
  file[0].measured =
      Measured{.bytes = 4096, .us = 12.5, .runs = 7, .runner_up = "star", .runner_up_us = 14.25};
  site.rules = join_rules({}, file);
  site.model.reset();
  EXPECT_EQ('\n' + show_explanation(site, explain(site)), R"(
# allgather of 4K bytes (1024 float32) on 4 ranks (2 hosts of 2) over shm,ucx
# over the network: nothing was measured, so nothing is predicted
# steps and bytes are those of rank 0
algorithm          rounds steps bytes sent predicted us measured us  why
ring                    4    13      12288            -       12.50  what a call gets, by the tuning file rule 1
circulant               3    11      12288            -           -  left out: tuning file rule 1 names ring
bruck                   2     9      12288            -           -  left out: tuning file rule 1 names ring
direct                  1    10      12288            -           -  left out: tuning file rule 1 names ring
star                    2     8      49152            -       14.25  left out: tuning file rule 1 names ring
torus                   3    31      12288            -           -  left out: tuning file rule 1 names ring
hierarchical            5    11      12288            -           -  left out: tuning file rule 1 names ring
recursive_doubling      -     -          -            -           -  left out: does no allgather
binomial                -     -          -            -           -  left out: does no allgather
double_tree             -     -          -            -           -  left out: does no allgather
pairwise                -     -          -            -           -  left out: does no allgather
dissemination           -     -          -            -           -  left out: does no allgather
leaders                 -     -          -            -           -  left out: does no allgather
a call gets ring
)");
}

}  // namespace
}  // namespace banyan::explain_test
