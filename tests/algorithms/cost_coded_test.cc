// Sums by codecs: what they are predicted to take, in the simulator and by link speed, and what
// `auto` makes of that; and what codecs lose.
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/choice/codec_costs.h"
#include "algorithms/choice/compression.h"
#include "algorithms/choice/measured_choice.h"
#include "algorithms/verify/simulate.h"
#include "compression/codecs.h"
#include "compression/grammar.h"
#include "tests/algorithms/cost_models.h"

namespace banyan::cost_coded_test {
namespace {

using testing::HasSubstr;

constexpr CodecChoice kInt8Choice{.codec = kInt8}, kBf16Choice{.codec = kBf16},
    kInt4Choice{.codec = kInt4};

Hierarchy hosts_of(int hosts, int each) {
  std::vector<int> labels;
  for (int place = 0; place < hosts * each; ++place) labels.push_back(place / each);
  return Hierarchy::of_labels("host", labels);
}

// Microseconds, and of one byte.
struct Network {
  double latency, memory_byte, wire_byte, codec_byte;
};

// Predicted over simulated, where a codec takes the same both ways. A core for each rank.
double ratio_of(const Problem& problem, std::string_view name, const Hierarchy& hosts,
                const Network& network, const Parameters& parameters) {
  const int ranks = hosts.places(), algorithm = find_algorithm(name);
  CostModel model = pure(network.latency, network.memory_byte, network.wire_byte);
  model.between.recv_byte = model.between.long_byte = table(0);
  model.codec_byte = table(network.codec_byte);
  for (const CodecChoice& choice : automatic_codecs())
    model.codecs.push_back(cost_of(choice, ranks, {}));
  SimulatedMachine machine;
  machine.within = {.latency = network.latency, .recv_byte = network.memory_byte};
  machine.between = {.latency = network.latency, .wire_byte = network.wire_byte};
  machine.work.codec_byte = network.codec_byte;
  std::vector<Schedule> schedules;
  const Hierarchy simple = hosts.simplified();
  for (int rank = 0; rank < ranks; ++rank) {
    Group group = Group::everyone(ranks, rank, &simple, parameters);
    group.codecs = codecs();
    schedules.push_back(
        build_schedule(problem, group, algorithms()[static_cast<size_t>(algorithm)]));
    machine.seats.push_back({.core = rank, .host = hosts.part_of(0, rank)});
  }
  return predict(problem, algorithm, ranks, model, &hosts, parameters) /
         simulate(schedules, machine).seconds;
}

// They agree as those of exact sums do. In the simulator a core encodes the blocks of all segments
// before it decodes what has come, where the model lets segments overlap.
TEST(CostOfCodecs, IsWhatTheSimulatorTakes) {
  struct Place {
    Hierarchy hosts;
    std::string_view algorithm;
  };
  const std::vector<Place> places = {
      {hosts_of(1, 2), "direct"},       {hosts_of(1, 5), "direct"},
      {hosts_of(2, 1), "direct"},       {hosts_of(8, 1), "direct"},
      {hosts_of(4, 2), "hierarchical"}, {hosts_of(2, 4), "hierarchical"}};
  const Network slow{20, 1e-4, 8e-3, 2e-4}, fast{5, 1e-4, 1e-4, 2e-4};
  for (const auto& [hosts, algorithm] : places)
    for (const Network& network : {slow, fast})
      for (const CodecChoice& codec : {kBf16Choice, kInt8Choice, kInt4Choice})
        for (const CodecChoice& inside : {CodecChoice(), kInt8Choice})
          for (const Collective collective : {Collective::kAllreduce, Collective::kReduceScatter})
            for (const DataType type : {DataType::kFloat32, DataType::kBfloat16})
              for (const uint64_t bytes :
                   {uint64_t{64} << 10, uint64_t{1} << 20, uint64_t{8} << 20}) {
                if (!inside.is_exact() && algorithm == "direct") continue;
                Problem problem = call(collective, bytes, hosts.places(), type);
                problem.check = false;
                Parameters parameters;
                parameters.inter_codec = codec;
                parameters.intra_codec = inside;
                const double ratio = ratio_of(problem, algorithm, hosts, network, parameters);
                const std::string what = hosts.text() + ' ' + text_of(codec) + ' ' +
                                         std::string(name_of(collective)) + ' ' +
                                         std::string(name_of(type)) + ' ' + std::to_string(bytes) +
                                         (inside.is_exact() ? "" : " inside, too");
                EXPECT_GT(ratio, 0.6) << what << " wire " << network.wire_byte;
                EXPECT_LT(ratio, 1.5) << what << " wire " << network.wire_byte;
              }
}

TEST(CostOfCodecs, IsInfiniteWhereTheModelDoesNotKnowTheCodec) {
  const Problem problem = call(Collective::kAllreduce, 1 << 20, 4);
  Parameters parameters;
  parameters.inter_codec = kInt8Choice;
  CostModel model = pure(5, 1e-4, 1e-3);
  const int direct = find_algorithm("direct");
  EXPECT_TRUE(std::isinf(predict(problem, direct, 4, model, nullptr, parameters)));
  model.codecs.push_back(cost_of(kInt8Choice, 4, {}));
  EXPECT_TRUE(std::isfinite(predict(problem, direct, 4, model, nullptr, parameters)));
}

// Four values of a hundred are in a sum of four that keep one each, less what they have in common.
TEST(CostOfCodecs, KnowsHowLongMessagesAre) {
  const CodecCost int8 = cost_of(kInt8Choice, 4, {});
  EXPECT_EQ(int8.unit, 4096);
  EXPECT_EQ(int8.message_bytes, 4160);
  EXPECT_FALSE(int8.encode_byte.known());
  const CodecCost few = cost_of({.codec = kTopk, .parameter = 0.01}, 4, {});
  EXPECT_NEAR(few.message_bytes, 0.06, 1e-4);
  EXPECT_NEAR(few.sum_bytes, 6 * 0.0394, 1e-4);
  EXPECT_NEAR(cost_of({.codec = kTopk, .half = true, .parameter = 0.01}, 4, {}).message_bytes, 0.04,
              1e-4);
  EXPECT_NEAR(cost_of({.codec = kTopk, .reselects = true, .parameter = 0.01}, 4, {}).sum_bytes,
              0.06, 1e-4);
  EXPECT_EQ(cost_of({.codec = kTopk, .parameter = 1}, 4, {}).sum_bytes, 4) << "dense is shorter";
  EXPECT_DOUBLE_EQ(cost_of({.codec = kRandk, .parameter = 0.01}, 4, {}).sum_bytes, 0.04);
  const CodecCost timed =
      cost_of(kInt8Choice, 4, std::vector<MeasuredCodec>{{kBf16Choice, 1, 1}, {kInt8Choice, 4, 8}});
  EXPECT_EQ(timed.encode_byte, (Figure{2.5e-4, Source::kMeasured}));
  EXPECT_EQ(timed.decode_byte, (Figure{1.25e-4, Source::kMeasured}));
}

using Values = std::vector<float>;

Values normal_values(size_t count, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  Values values(count);
  for (float& value : values) value = static_cast<float>(normal(random));
  return values;
}

// What arrives of values.
Values sent(const CodecChoice& choice, const Values& values, uint64_t step = 0) {
  if (choice.is_exact()) return values;
  const Codec& codec = codecs()[choice.codec - size_t{1}];
  Coding coding = coding_of(choice, DataType::kFloat32);
  coding.step = step;
  std::vector<std::byte> message(codec.capacity(coding, DataType::kFloat32, values.size()));
  const Encoded said =
      codec.encode(coding, DataType::kFloat32, reinterpret_cast<const std::byte*>(values.data()),
                   values.size(), message.data(), nullptr);
  Values back(values.size());
  EXPECT_TRUE(codec.decode(coding, DataType::kFloat32, {message.data(), said.size, said.flags},
                           values.size(), reinterpret_cast<std::byte*>(back.data())));
  return back;
}

// The power of what is off, by that of the exact values.
template <typename Exact>
double lost(const Values& values, const Exact& exact) {
  double power = 0, error = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto whole = static_cast<double>(exact[i]);
    power += std::pow(whole, 2);
    error += std::pow(whole - static_cast<double>(values[i]), 2);
  }
  return error / power;
}

double lost_at_once(const CodecChoice& choice) {
  const Values values = normal_values(size_t{1} << 18, 29);
  return lost(sent(choice, values), values);
}

TEST(LossOfCodecs, IsWhatTheyLose) {
  for (const char* name : {"fp16", "bf16", "int8", "int4", "dyn8", "e4m3", "e5m2", "onebit",
                           "int8+sr", "int4+sr", "e4m3+sr", "e5m2+sr"}) {
    const CodecChoice choice = *parse_codec(name);
    const double loss = lost_at_once(choice);
    EXPECT_NEAR(loss_of(choice) / loss, 1, 0.03) << name << ": " << loss;
  }
}

Parameters by_codecs(const char* top, const char* inside) {
  const auto choice = [](std::string_view name) {
    return name == "off" ? CodecChoice{} : *parse_codec(name);
  };
  Parameters codecs;
  codecs.inter_codec = choice(top);
  codecs.intra_codec = choice(inside);
  return codecs;
}

// A sum on simulated ranks: what parts have summed is encoded on its way up, level by level, the
// sum at the top, and what was decoded of it on its way down. Four parts are in each.
struct SimulatedSum {
  static constexpr size_t kCount = 32'768;
  static constexpr int kParts = 4;

  Parameters codecs;
  int levels;  // below the top
  std::vector<double> exact = std::vector<double>(kCount);
  uint64_t encoded = 0;

  Values add(int level, uint32_t& rank) {
    if (level < 0) {
      Values own = normal_values(kCount, ++rank);
      for (size_t i = 0; i < kCount; ++i) exact[i] += static_cast<double>(own[i]);
      return own;
    }
    Values sum(kCount);
    for (int part = 0; part < kParts; ++part) {
      const Values arrived = sent(codec_of(level), add(level - 1, rank), ++encoded);
      for (size_t i = 0; i < kCount; ++i) sum[i] += arrived[i];
    }
    return sum;
  }
  const CodecChoice& codec_of(int level) const {
    return level == levels ? codecs.inter_codec : codecs.intra_codec;
  }

  double lose(Collective collective) {
    uint32_t rank = 0;
    Values sum = add(levels, rank);
    if (collective == Collective::kAllreduce)
      for (int level = levels; level >= 0; --level) sum = sent(codec_of(level), sum, ++encoded);
    return lost(sum, exact);
  }
};

void expect_law(const char* top, const char* inside, int levels, Collective collective) {
  const Parameters codecs = by_codecs(top, inside);
  const double law = loss_of(codecs, collective, levels);
  SimulatedSum sum{.codecs = codecs, .levels = levels};
  EXPECT_NEAR(sum.lose(collective) / law, 1, 0.1) << top << " above " << levels << " of " << inside
                                                  << ": " << law_of(codecs, collective, levels);
}

TEST(LossOfSums, IsWhatTheyLoseOnHosts) {
  for (const Collective collective : {Collective::kAllreduce, Collective::kReduceScatter})
    for (const char* top : {"off", "bf16", "int8", "int4", "dyn8", "e4m3"})
      for (const char* inside : {"fp16", "bf16", "int8", "int4", "dyn8", "e4m3"})
        expect_law(top, inside, 1, collective);
}

TEST(LossOfSums, IsWhatTheyLoseByChance) {
  for (const char* top : {"int8+sr", "int8", "off"})
    for (const char* inside : {"int8+sr", "int8", "off"})
      if (top != std::string_view("off") || inside != std::string_view("off"))
        expect_law(top, inside, 1, Collective::kAllreduce);
}

TEST(LossOfSums, IsWhatTheyLoseOnTwoLevelsInside) {
  for (const Collective collective : {Collective::kAllreduce, Collective::kReduceScatter})
    for (const auto& [top, inside] : {std::pair("int8", "int8"), std::pair("off", "int8"),
                                      std::pair("int8", "int4"), std::pair("int4", "int4")})
      expect_law(top, inside, 2, collective);
}

TEST(LawOfSums, SaysHowOftenValuesAreEncoded) {
  struct Case {
    const char *top, *inside;
    int levels;
    Collective collective;
    const char* law;
  };
  constexpr Collective kAll = Collective::kAllreduce, kScatter = Collective::kReduceScatter;
  for (const auto& [top, inside, levels, collective, law] :
       {Case{"off", "off", 0, kAll, "none"}, Case{"int8", "off", 0, kAll, "2 c, c = 4.9e-05"},
        Case{"int8", "off", 1, kScatter, "c = 4.9e-05"},
        Case{"int8", "int8", 1, kAll, "3 c, c = 4.9e-05"},
        Case{"int8", "int8", 2, kAll, "4 c, c = 4.9e-05"},
        Case{"int8", "int8", 1, kScatter, "2 c, c = 4.9e-05"},
        Case{"off", "int8", 1, kAll, "2 c', c' = 4.9e-05"},
        Case{"int4", "int8", 1, kAll, "2 c + 2 c' = 1.9e-02"},
        Case{"int4", "int8", 1, kScatter, "c + c' = 9.6e-03"},
        Case{"int8", "int8+sr", 1, kAll, "2 c + c' = 2.0e-04"},
        Case{"onebit", "off", 0, kAll, "at most 2 c, c = 3.6e-01"},
        Case{"onebit", "int8", 1, kAll, "at most 2 c + 2 c' = 7.2e-01"},
        Case{"e4m3", "e5m2", 1, kAll, "not known"},
        Case{"randk:0.01", "off", 1, kAll, "all but 0.01 of a rank's values"},
        Case{"randk:0.01", "int8", 1, kAll,
             "all but 0.01 of a rank's values; inside 2 c', c' = 4.9e-05"}})
    EXPECT_EQ(law_of(by_codecs(top, inside), collective, levels), law);
}

// Four hosts of one rank each, whose links have so many gigabits a second in each direction.
MeasuredNetwork network_of(double gigabits, int each = 1) {
  const MeasuredLink link{.latency_us = 10,
                          .busy_latency_us = 10,
                          .message_us = 1,
                          .GBps = gigabits / 8,
                          .busy_GBps = gigabits / 8 / each,
                          .pairs = each};
  MeasuredLinks links{.between = link, .sums = MeasuredSums{.GBps = 20, .far_GBps = 5}};
  links.codecs = {{kBf16Choice, 8, 10}, {kInt8Choice, 4, 6}, {kInt4Choice, 3, 4}};
  return *measured_network(links, each, hosts_of(4, each));
}

Problem automatic(uint64_t bytes, DataType type = DataType::kFloat32) {
  Problem problem = call(Collective::kAllreduce, bytes, 4, type);
  problem.compression = *parse_compression("auto");
  return problem;
}

Choice chosen_for(const Problem& problem, const MeasuredNetwork& network) {
  const Choice exact = choose(problem, 4, Medium::kNetwork, {}, nullptr, &network);
  return with_codecs(problem, 4, Medium::kNetwork, nullptr, &network, exact);
}

TEST(Auto, TakesTheFastestAndNothingThatIsSlowerThanExact) {
  const CodecChoice wanted[] = {{}, kBf16Choice, kInt8Choice, kInt4Choice};
  const double rates[] = {100, 10, 5, 1, 0.1};
  const CodecChoice found[] = {wanted[0], wanted[1], wanted[2], wanted[3], wanted[3]};
  for (size_t i = 0; i < std::size(rates); ++i) {
    const MeasuredNetwork network = network_of(rates[i]);
    const Choice choice = chosen_for(automatic(64 << 20), network);
    EXPECT_EQ(choice.parameters.inter_codec, found[i]) << rates[i] << ": " << choice.because;
  }
  for (const double rate : {0.1, 0.3, 1., 3., 10., 30., 100.})
    for (const uint64_t bytes :
         {uint64_t{1} << 10, uint64_t{12} << 10, uint64_t{64} << 10, uint64_t{1} << 20}) {
      const MeasuredNetwork network = network_of(rate);
      const auto us = [&](const Choice& choice) {
        return predict(automatic(bytes), choice.algorithm, 4, network.model, &network.levels,
                       choice.parameters);
      };
      const Problem problem = automatic(bytes);
      const Choice choice = chosen_for(problem, network);
      const Choice exact = choose(problem, 4, Medium::kNetwork, {}, nullptr, &network);
      EXPECT_LE(us(choice), us(exact)) << rate << ' ' << bytes;
      Problem in_place = problem;
      in_place.in_place = true;
      EXPECT_EQ(chosen_for(in_place, network).parameters, choice.parameters)
          << "ranks may differ in that";
      for (const CodecChoice& codec : automatic_codecs()) {
        Parameters parameters;
        parameters.inter_codec = codec;
        const Choice by = encoded(exact, parameters, Collective::kAllreduce, nullptr);
        if (links_decide(problem)) {
          EXPECT_LE(0.98 * us(choice), us(by)) << text_of(codec) << ' ' << rate << ' ' << bytes;
        }
      }
    }
}

TEST(Auto, SaysWhatWasPredicted) {
  const Choice slow = chosen_for(automatic(1 << 20), network_of(1));
  EXPECT_THAT(slow.because,
              testing::MatchesRegex(
                  "compression; auto: int4 predicted [0-9.]+ us, exact predicted [0-9.]+ us"));
  const Choice fast = chosen_for(automatic(1 << 20), network_of(100));
  EXPECT_THAT(
      fast.because,
      testing::MatchesRegex(
          "measured links; auto: exact predicted [0-9.]+ us, [a-z0-9]+ predicted [0-9.]+ us"));
}

// A call that was measured need not be predicted.
TEST(Auto, IsExactWhereThatWasMeasuredToTakeLess) {
  const MeasuredNetwork network = network_of(1);
  const auto chosen = [&](double us, uint64_t at_bytes) {
    Rules rules = *parse_rules("allreduce: ring");
    rules[0].measured = Measured{.bytes = at_bytes, .us = us};
    const Problem problem = automatic(1 << 20);
    const Choice exact = choose(problem, 4, Medium::kNetwork, rules, nullptr, &network);
    return with_codecs(problem, 4, Medium::kNetwork, nullptr, &network, exact);
  };
  const Choice fast = chosen(10, 1 << 20);
  EXPECT_FALSE(fast.parameters.encodes());
  EXPECT_THAT(fast.because, HasSubstr("auto: exact measured 10.00 us, int4 predicted "));
  EXPECT_FALSE(chosen(10, 4 << 20).parameters.encodes()) << "more bytes took no longer";
  EXPECT_THAT(chosen(10, 1 << 18).because, HasSubstr("exact measured 40.00 us")) << "a quarter";
  EXPECT_TRUE(chosen(1e6, 1 << 20).parameters.encodes()) << "longer than predicted";
}

TEST(Auto, GoesByWhatWasMeasuredOfShorterAndLongerCalls) {
  const MeasuredNetwork network = network_of(1);
  Rules rules = *parse_rules("allreduce size=0-1M: ring; allreduce size=2M-8M: star");
  rules[0].measured = Measured{.bytes = 512 << 10, .us = 10};
  rules[1].measured = Measured{.bytes = 2 << 20, .us = 40};
  const Problem problem = automatic(1 << 20);
  const Choice exact = choose(problem, 4, Medium::kNetwork, rules, nullptr, &network);
  const Choice choice = with_codecs(problem, 4, Medium::kNetwork, nullptr, &network, exact);
  EXPECT_THAT(choice.because, HasSubstr("exact measured 20.00 us")) << "a third of the way";
}

// Wherever the ranks are, and whatever is predicted.
TEST(Auto, GoesByWhatCallsByCodecsTook) {
  const uint64_t mib = 1 << 20;
  const std::vector<CodecTime> times = {{{}, mib, 100},
                                        {{}, 4 * mib, 400},
                                        {kBf16Choice, mib, 110},
                                        {kInt8Choice, mib, 60},
                                        {kInt8Choice, 4 * mib, 420},
                                        {kInt4Choice, mib, 59.5},
                                        {kInt4Choice, 4 * mib, 396}};
  const auto chosen = [&](const Problem& problem) {
    const Choice exact = choose(problem, 4, Medium::kMemory, {});
    return with_codecs(problem, 4, Medium::kMemory, nullptr, nullptr, exact, times);
  };
  const Choice choice = chosen(automatic(mib));
  EXPECT_EQ(choice.parameters.inter_codec, kInt8Choice) << "int4 loses more for less than 2 %";
  EXPECT_THAT(choice.because, HasSubstr("auto: int8 measured 60.00 us, exact measured 100.00 us"));
  EXPECT_EQ(chosen(automatic(2 * mib)).parameters.inter_codec, kInt4Choice) << "171.67 of 180";
  const Choice longer = chosen(automatic(4 * mib));
  EXPECT_FALSE(longer.parameters.encodes());
  EXPECT_THAT(longer.because, HasSubstr("auto: exact measured 400.00 us, int4 measured 396.00 us"));
  EXPECT_FALSE(chosen(automatic(8 * mib)).parameters.encodes());
  EXPECT_TRUE(chosen(automatic(mib / 2)).parameters.encodes()) << "as the shortest";

  EXPECT_FALSE(chosen(automatic(mib, DataType::kFloat16)).parameters.encodes());
  Problem invariant = automatic(mib);
  invariant.invariant = true;
  EXPECT_FALSE(chosen(invariant).parameters.encodes());
  Problem scatter = call(Collective::kReduceScatter, mib, 4);
  scatter.compression = *parse_compression("auto");
  EXPECT_FALSE(chosen(scatter).parameters.encodes());
  Problem asked = automatic(4 * mib);
  asked.compression = *parse_compression("int8");
  EXPECT_EQ(chosen(asked).parameters.inter_codec, kInt8Choice);
}

TEST(Auto, IsExactWhereNoLinksDecide) {
  const Problem problem = automatic(1 << 20);
  const Choice exact = choose(problem, 4, Medium::kMemory, {});
  const Choice choice = with_codecs(problem, 4, Medium::kMemory, nullptr, nullptr, exact);
  EXPECT_EQ(choice.algorithm, exact.algorithm);
  EXPECT_FALSE(choice.parameters.encodes());
  EXPECT_EQ(choice.because, "default table; auto: exact, as no measured links decide that");
  const Problem exact_call = call(Collective::kAllreduce, 1 << 20, 4);
  EXPECT_EQ(with_codecs(exact_call, 4, Medium::kMemory, nullptr, nullptr, exact).because,
            "default table");
}

TEST(Auto, IsExactWhereSumsAreToBeTheSameEverywhere) {
  Problem problem = automatic(64 << 20);
  problem.invariant = true;
  const Choice choice = chosen_for(problem, network_of(0.1));
  EXPECT_FALSE(choice.parameters.encodes());
  EXPECT_THAT(choice.because, HasSubstr("auto: exact, as links do not decide invariant sums"));
}

// Where bf16 would be fastest for values of 32 bits.
TEST(Auto, DoesNotMakeBf16OfValuesOf16Bits) {
  for (const double rate : {1., 10., 30.}) {
    const Choice choice = chosen_for(automatic(64 << 20, DataType::kFloat16), network_of(rate));
    EXPECT_NE(choice.parameters.inter_codec, kBf16Choice) << rate;
  }
}

// Each level by itself: a network that is slow, and memory.
TEST(Auto, ChoosesForEachLevel) {
  const MeasuredNetwork network = network_of(1, 2);
  Problem problem = call(Collective::kAllreduce, 64 << 20, 8);
  const Choice exact = choose(problem, 8, Medium::kNetwork, {}, &network.levels, &network);
  const auto with = [&](const char* compression) {
    problem.compression = *parse_compression(compression);
    return with_codecs(problem, 8, Medium::kNetwork, &network.levels, &network, exact);
  };
  const Choice both = with("inter=auto,intra=auto");
  EXPECT_EQ(both.algorithm, find_algorithm("hierarchical"));
  EXPECT_EQ(both.parameters.inter_codec, kInt4Choice) << both.because;
  EXPECT_EQ(both.parameters.intra_codec, CodecChoice()) << both.because;
  const Choice one = with("inter=auto,intra=e4m3");
  EXPECT_EQ(one.parameters.intra_codec.codec, kE4m3) << "as it is asked for";
  EXPECT_EQ(one.parameters.inter_codec, kInt4Choice) << one.because;
  EXPECT_THAT(one.because, HasSubstr("auto: inter=int4,intra=e4m3 predicted "));
  EXPECT_THAT(one.because, HasSubstr(" us, inter=off,intra=e4m3 predicted "));
}

}  // namespace
}  // namespace banyan::cost_coded_test
