// SPDX-License-Identifier: Apache-2.0

#include "bench/tune/codec_trials.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "algorithms/choice/codec_costs.h"
#include "compression/grammar.h"

namespace banyan::tune {
namespace {

constexpr uint64_t kLeastTimed = 1024;
constexpr uint64_t kFactor = 4;
constexpr size_t kLeastTurns = 3;
constexpr size_t kMostTurns = 7;
constexpr double kTurnMicroseconds = 1500;  // of small messages, by each contender
constexpr double kMostCalls = 100;

double median_of(std::vector<double> values) {
  return Contender{.us = std::move(values)}.median();
}

std::vector<uint64_t> lengths_to(uint64_t most) {
  std::vector<uint64_t> lengths;
  for (uint64_t bytes = kLeastTimed; bytes <= most; bytes *= kFactor) lengths.push_back(bytes);
  return lengths;
}

// The longest that is no longer, or else the shortest. Requires that there is one.
const Finding& finding_near(const Subject& subject, uint64_t bytes) {
  auto found = subject.findings.upper_bound(bytes);
  if (found != subject.findings.begin()) --found;
  return found->second;
}

// The microseconds of one trial of each, turn by turn: first exact, then the codecs.
using Turns = std::vector<std::vector<double>>;

class CodecTrials {
 public:
  CodecTrials(const Laboratory& laboratory, uint32_t seed)
      : laboratory_(laboratory), random_(seed) {}

  // As many turns as there is time for, none where that is too little. `us`: what a call may take.
  Result<Turns> run(Trial trial, double us, double seconds) {
    const double calls = std::clamp(kTurnMicroseconds / us, 1.0, kMostCalls);
    trial.iterations = static_cast<uint64_t>(calls);
    trial.warm_up = us < kTurnMicroseconds ? 2 + trial.iterations / 2 : 1;
    const double turn_s =
        static_cast<double>((trial.iterations + trial.warm_up) * contenders()) * us * 1e-6;
    const double end = laboratory_.seconds_left() - seconds;
    Turns turns;
    if (turn_s * static_cast<double>(kLeastTurns) > seconds) return turns;
    while (turns.size() < kMostTurns) {
      if (laboratory_.seconds_left() - turn_s < std::max(end, 0.0)) break;
      Result<std::vector<double>> turn = run_turn(trial);
      BANYAN_TRY(turn.status());
      turns.push_back(std::move(*turn));
    }
    if (turns.size() < kLeastTurns) turns.clear();
    return turns;
  }

 private:
  static size_t contenders() { return 1 + automatic_codecs().size(); }

  Result<std::vector<double>> run_turn(Trial trial) {
    BANYAN_TRY(laboratory_.renew());
    std::vector<int> order;
    for (size_t place = 0; place < contenders(); ++place) order.push_back(static_cast<int>(place));
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_() % i]);
    std::vector<double> turn(order.size());
    for (const int place : order) {
      trial.codec = place - 1;
      const Result<double> us = laboratory_.run(trial);
      BANYAN_TRY(us.status());
      turn[static_cast<size_t>(place)] = *us;
    }
    return turn;
  }

  const Laboratory& laboratory_;
  std::mt19937 random_;
};

// Requires turns.
void add_times(std::vector<CodecTime>& times, uint64_t bytes, const Turns& turns) {
  std::vector<double> exact;
  for (const std::vector<double>& turn : turns) exact.push_back(turn.front());
  times.push_back({{}, bytes, median_of(exact)});
  const double exact_us = times.back().us;
  for (size_t codec = 0; codec < automatic_codecs().size(); ++codec) {
    std::vector<double> shares;
    for (const std::vector<double>& turn : turns) shares.push_back(turn[codec + 1] / turn.front());
    times.push_back({automatic_codecs()[codec], bytes, exact_us * median_of(shares)});
  }
}

}  // namespace

Result<std::vector<CodecTime>> time_codecs(const Subject& allreduce, const Laboratory& laboratory,
                                           uint32_t seed) {
  std::vector<CodecTime> times;
  if (allreduce.findings.empty()) return times;
  CodecTrials trials(laboratory, seed);
  const std::vector<uint64_t> lengths = lengths_to(allreduce.most_bytes);
  double last_us = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const Finding& near = finding_near(allreduce, lengths[i]);
    const double longer = static_cast<double>(lengths[i]) / static_cast<double>(near.bytes);
    const double us = std::max({near.best_us * std::max(longer, 1.0), last_us, 0.1});
    const double left = laboratory.seconds_left();
    const double share = std::min(left, 2 * left / static_cast<double>(lengths.size() - i));
    laboratory.progress(allreduce.pattern, lengths[i]);
    const Result<Turns> turns = trials.run(
        {.pattern = allreduce.pattern, .bytes = lengths[i], .algorithm = near.best}, us, share);
    BANYAN_TRY(turns.status());
    if (turns->empty()) break;  // longer ones would take longer
    add_times(times, lengths[i], *turns);
    last_us = time_of(lengths[i], {}, times).value_or(0);
  }
  return times;
}

std::string report_of(const std::vector<CodecTime>& times) {
  if (times.empty()) return "";
  std::string text = fmt::format("{:<16}{:>10}{:>12}", "# us by codec", "bytes", "off");
  for (const CodecChoice& choice : automatic_codecs())
    text += fmt::format("{:>12}", text_of(choice));
  std::map<uint64_t, std::string> lines;
  for (const CodecTime& time : times) lines[time.bytes] += fmt::format("{:>12.2f}", time.us);
  for (const auto& [bytes, line] : lines)
    text += fmt::format("\n{:<16}{:>10}{}", "allreduce", bytes, line);
  return text + '\n';
}

}  // namespace banyan::tune
