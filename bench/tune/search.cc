// SPDX-License-Identifier: Apache-2.0

#include "bench/tune/search.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>
#include <set>
#include <utility>

namespace banyan::tune {

namespace {

constexpr uint64_t kLeastBytes = 4;
constexpr double kLeastGain = 0.05;
constexpr size_t kRunsOfFinalists = 7;
constexpr size_t kRunsOfWinner = 13;
constexpr size_t kFinalists = 3;
constexpr double kTrialMicroseconds = 1500;  // what a trial of small messages is to take
constexpr double kMostIterations = 100;
constexpr double kNarrowest = 1.25;      // ratio of neighbouring sizes that are not divided further
constexpr uint64_t kLarge = 256 * 1024;  // from here on, who was hopeless stays so
constexpr double kPartOfShare = 0.5;  // of a trial's time; the rest is for meeting before each call
constexpr uint64_t kNear = 2;         // ratio of sizes
constexpr double kTrialsAtLeast = 10;  // of the slowest, in the time of a size
constexpr double kHopeless = 4;
constexpr double kMostRenewing =
    0.25;                              // of the time; where a renewal takes longer, there are fewer
constexpr uint64_t kShort = 4096;      // up to here a message costs what its start costs
constexpr double kKeptForLater = 0.4;  // by each pass, of the time that is left

double quantile(const std::vector<double>& ascending, double part) {
  const double place = part * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, ascending.size() - 1);
  return std::lerp(ascending[below], ascending[above], place - static_cast<double>(below));
}

std::vector<double> sorted(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values;
}

Contender& contender_of(std::vector<Contender>& contenders, int algorithm) {
  return *std::find_if(contenders.begin(), contenders.end(),
                       [&](const Contender& each) { return each.algorithm == algorithm; });
}

void sort_by_median(std::vector<Contender>& contenders) {
  std::stable_sort(contenders.begin(), contenders.end(),
                   [](const Contender& a, const Contender& b) { return a.median() < b.median(); });
}

class Searcher {
 public:
  Searcher(std::vector<Subject>& subjects, const Laboratory& laboratory, uint32_t seed)
      : subjects_(subjects),
        laboratory_(laboratory),
        random_(seed),
        begin_(laboratory.seconds_left()) {}

  Status run() {
    Status status = look();
    for (Subject& subject : subjects_) {
      settle(subject);
      follow(subject);
    }
    return status;
  }

 private:
  Status look() {
    // Each pass reserves a part of the time that is left when it begins.
    for (const uint64_t factor : {16, 4, 2}) {
      const double reserve = kKeptForLater * laboratory_.seconds_left();
      BANYAN_TRY(pass(points_of(factor), reserve));
    }
    while (laboratory_.seconds_left() > 0) {
      const std::vector<Point> points = borders();
      if (points.empty()) return {};
      const size_t before = examined_;
      BANYAN_TRY(pass(points, 0));
      if (examined_ == before) return {};  // there is no time for any of them
    }
    return {};
  }

  static std::vector<Finding*> in_order(Subject& subject) {
    std::vector<Finding*> all;
    for (auto& [bytes, finding] : subject.findings) all.push_back(&finding);
    return all;
  }

  // Whom neighbours on both sides leave the default for need not be ahead in three of four turns.
  static void follow(Subject& subject) {
    const std::vector<Finding*> all = in_order(subject);
    std::vector<Finding*> followers;
    for (size_t i = 1; i + 1 < all.size(); ++i) {
      const Finding &before = *all[i - 1], &here = *all[i], &after = *all[i + 1];
      const bool agree = before.changed() && after.changed() && before.best == after.best;
      if (agree && !here.changed() && here.runner_up == before.best &&
          here.runner_up_us < here.best_us)
        followers.push_back(all[i]);
    }
    for (Finding* each : followers) {
      std::swap(each->best, each->runner_up);
      std::swap(each->best_us, each->runner_up_us);
    }
  }

  // One size that says otherwise than both of its near neighbours is chance.
  static void settle(Subject& subject) {
    const std::vector<Finding*> all = in_order(subject);
    const auto near = [](const Finding& a, const Finding& b) {
      return b.bytes <= kNear * a.bytes && differ(a, b);
    };
    std::vector<Finding*> lonely;
    for (size_t i = 1; i + 1 < all.size(); ++i)
      if (all[i]->changed() && near(*all[i - 1], *all[i]) && near(*all[i], *all[i + 1]))
        lonely.push_back(all[i]);
    for (Finding* each : lonely) {
      each->best = each->by_default;
      each->best_us = each->default_us;
    }
  }

  struct Point {
    uint64_t bytes;
    Subject* subject;
  };

  // Small ones first, so that what large ones will take is known when they come.
  static void sort(std::vector<Point>& points) {
    std::stable_sort(points.begin(), points.end(),
                     [](const Point& a, const Point& b) { return a.bytes < b.bytes; });
  }

  std::vector<Point> points_of(uint64_t factor) {
    std::vector<Point> points;
    for (Subject& subject : subjects_) {
      const auto add = [&](uint64_t bytes) {
        if (subject.findings.count(bytes) == 0) points.push_back({bytes, &subject});
      };
      if (subject.most_bytes == 0) {
        add(0);
        continue;
      }
      for (uint64_t bytes = kLeastBytes; bytes < subject.most_bytes; bytes *= factor) add(bytes);
      add(subject.most_bytes);
    }
    sort(points);
    return points;
  }

  // Between neighbours with different answers.
  std::vector<Point> borders() {
    std::vector<Point> points;
    for (Subject& subject : subjects_) {
      const Finding* before = nullptr;
      for (const auto& [bytes, finding] : subject.findings) {
        if (before != nullptr && differ(*before, finding)) {
          const double ratio = static_cast<double>(bytes) / static_cast<double>(before->bytes);
          const uint64_t middle =
              static_cast<uint64_t>(static_cast<double>(before->bytes) * std::sqrt(ratio)) /
              kElementBytes * kElementBytes;
          if (ratio > kNarrowest && middle > before->bytes && middle < bytes &&
              given_up_.count({subject.pattern, middle}) == 0)
            points.push_back({middle, &subject});
        }
        before = &finding;
      }
    }
    sort(points);
    return points;
  }

  // Where the default stays, its own borders are in its table.
  static bool differ(const Finding& a, const Finding& b) {
    if (!a.changed() && !b.changed()) return false;
    return a.changed() != b.changed() || a.best != b.best;
  }

  // Each point may take twice its share of the time.
  Status pass(const std::vector<Point>& points, double reserve) {
    for (size_t i = 0; i < points.size(); ++i) {
      const double left = laboratory_.seconds_left() - reserve;
      if (left <= 0) return {};
      const double allowed = std::min(left, 2 * left / static_cast<double>(points.size() - i));
      BANYAN_TRY(examine(*points[i].subject, points[i].bytes, allowed));
    }
    return {};
  }

  // Finds what is known of the nearest smaller size.
  const std::vector<Contender>* known(const Subject& subject, uint64_t bytes) const {
    const auto found = known_.lower_bound({subject.pattern, bytes});
    if (found == known_.begin() || std::prev(found)->first.first != subject.pattern) return nullptr;
    return &std::prev(found)->second;
  }

  // Microseconds of a call: by what the nearest smaller size took, or else by a few calls.
  Result<double> predict(const Subject& subject, uint64_t bytes, int by_default) {
    const std::vector<Contender>* before = known(subject, bytes);
    if (before == nullptr) {
      BANYAN_TRY(renew());
      return laboratory_.run({.pattern = subject.pattern,
                              .bytes = bytes,
                              .algorithm = by_default,
                              .iterations = 3,
                              .warm_up = 2});
    }
    return before->front().median() * growth(subject, bytes);
  }

  // From the nearest smaller size that is known.
  double growth(const Subject& subject, uint64_t bytes) const {
    const uint64_t from = std::prev(known_.lower_bound({subject.pattern, bytes}))->first.second;
    if (bytes <= kShort) return 1;
    return static_cast<double>(bytes) / static_cast<double>(std::max(from, kShort));
  }

  // Those of which a trial would take so long that few others found time.
  void leave_out_slow(std::vector<Contender>& contenders, const Subject& subject,
                      const Trial& trial, int by_default, double allowed) const {
    const std::vector<Contender>* before = known(subject, trial.bytes);
    if (before == nullptr) return;
    const double calls = static_cast<double>(trial.iterations + trial.warm_up);
    const double most_us = allowed / kTrialsAtLeast * 1e6 / calls / growth(subject, trial.bytes);
    for (const Contender& each : *before)
      if (each.algorithm != by_default && each.median() > most_us)
        std::erase_if(contenders, [&](const Contender& contender) {
          return contender.algorithm == each.algorithm;
        });
  }

  std::vector<Contender> contenders_at(const Subject& subject, uint64_t bytes, int by_default) {
    std::vector<Contender> contenders;
    const std::vector<Contender>* before = bytes > kLarge ? known(subject, bytes) : nullptr;
    for (const int algorithm : subject.algorithms) {
      bool hopeless = false;
      if (before != nullptr && algorithm != by_default) {
        const auto same = std::find_if(before->begin(), before->end(), [&](const Contender& each) {
          return each.algorithm == algorithm;
        });
        hopeless = same == before->end() || same->median() > kHopeless * before->front().median();
      }
      if (!hopeless) contenders.push_back({algorithm});
    }
    return contenders;
  }

  Status renew() {
    const double left = laboratory_.seconds_left();
    if (renewed_ && renewing_ > kMostRenewing * (begin_ - left)) return {};
    BANYAN_TRY(laboratory_.renew());
    renewed_ = true;
    renewing_ += left - laboratory_.seconds_left();
    return {};
  }

  // False: time is up.
  Result<bool> round(std::vector<Contender>& contenders, Trial trial, double seconds_end) {
    if (laboratory_.seconds_left() <= seconds_end) return false;
    BANYAN_TRY(renew());
    std::vector<size_t> order(contenders.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_() % i]);
    for (const size_t place : order) {
      if (laboratory_.seconds_left() <= seconds_end) return false;
      trial.algorithm = contenders[place].algorithm;
      const Result<double> us = laboratory_.run(trial);
      BANYAN_TRY(us.status());
      contenders[place].us.push_back(*us);
    }
    return true;
  }

  // Until each has so many runs.
  Result<bool> rounds(std::vector<Contender>& contenders, size_t runs, const Trial& trial,
                      double seconds_end) {
    while (contenders.front().us.size() < runs) {
      Result<bool> going = round(contenders, trial, seconds_end);
      if (!going.ok() || !*going) return going;
    }
    return true;
  }

  // The default always stays.
  static void drop(std::vector<Contender>& contenders, double most_ratio, size_t most,
                   int by_default) {
    sort_by_median(contenders);
    const double limit = most_ratio * contenders.front().median();
    std::vector<Contender> kept;
    for (Contender& each : contenders)
      if (each.algorithm == by_default || (each.median() <= limit && kept.size() < most))
        kept.push_back(std::move(each));
    contenders = std::move(kept);
  }

  Status examine(Subject& subject, uint64_t bytes, double allowed) {
    const double end = laboratory_.seconds_left() - allowed;
    const Result<int> by_default = laboratory_.default_of(subject.pattern, bytes);
    BANYAN_TRY(by_default.status());
    std::vector<Contender> contenders = contenders_at(subject, bytes, *by_default);
    const Result<double> prediction = predict(subject, bytes, *by_default);
    BANYAN_TRY(prediction.status());
    const double predicted = std::max(*prediction, 0.1);
    Trial trial{.pattern = subject.pattern, .bytes = bytes};
    const double trials =
        static_cast<double>(contenders.size()) + 4.0 * static_cast<double>(kRunsOfFinalists);
    const double share = kPartOfShare * allowed * 1e6 / trials;
    const double calls =
        std::clamp(std::min(kTrialMicroseconds, share) / predicted, 1.0, kMostIterations);
    trial.iterations = static_cast<uint64_t>(calls);
    trial.warm_up = predicted < kTrialMicroseconds ? 2 + trial.iterations / 2 : 1;
    const double needed =
        trials * predicted * 1e-6 * static_cast<double>(trial.iterations + trial.warm_up);
    leave_out_slow(contenders, subject, trial, *by_default, allowed);
    given_up_.insert({subject.pattern, bytes});  // taken back at the end
    if (needed > allowed) return {};
    laboratory_.progress(subject.pattern, bytes);
    ++examined_;
    const auto play = [&](size_t runs) { return rounds(contenders, runs, trial, end); };

    Result<bool> going = play(1);
    BANYAN_TRY(going.status());
    if (!*going) return {};
    std::vector<Contender> first = contenders;
    sort_by_median(first);
    drop(contenders, 2, contenders.size(), *by_default);
    going = play(3);
    BANYAN_TRY(going.status());
    if (!*going) return {};
    drop(contenders, 1.5, kFinalists, *by_default);
    going = play(kRunsOfFinalists);
    BANYAN_TRY(going.status());
    if (!*going) return {};
    Finding finding = judge(bytes, *by_default, contenders);
    if (finding.changed()) {  // again, as chance favours whoever is first of many
      drop(contenders, 1.5, 2, *by_default);
      going = play(kRunsOfWinner);
      BANYAN_TRY(going.status());
      if (!*going) return {};
      finding = judge(bytes, *by_default, contenders);
    }
    subject.findings[bytes] = finding;
    known_[{subject.pattern, bytes}] = std::move(first);
    given_up_.erase({subject.pattern, bytes});
    return {};
  }

  std::vector<Subject>& subjects_;
  const Laboratory& laboratory_;
  std::mt19937 random_;
  double begin_;         // seconds that were left then
  double renewing_ = 0;  // seconds
  bool renewed_ = false;
  // By pattern and size: one run of each, fastest first, and the sizes there was no time for.
  std::map<std::pair<perf::Pattern, uint64_t>, std::vector<Contender>> known_;
  std::set<std::pair<perf::Pattern, uint64_t>> given_up_;
  size_t examined_ = 0;
};

}  // namespace

double Contender::median() const {
  return quantile(sorted(us), 0.5);
}

bool beats(const Contender& one, const Contender& other) {
  std::vector<double> ratios;
  for (size_t turn = 0; turn < std::min(one.us.size(), other.us.size()); ++turn)
    ratios.push_back(one.us[turn] / other.us[turn]);
  ratios = sorted(std::move(ratios));
  return quantile(ratios, 0.5) < 1 - kLeastGain && quantile(ratios, 0.75) < 1;
}

Finding judge(uint64_t bytes, int by_default, const std::vector<Contender>& contenders) {
  std::vector<Contender> all = contenders;
  sort_by_median(all);
  const Contender& usual = contender_of(all, by_default);
  const Contender& fastest = all.front();
  const Contender& best = beats(fastest, usual) ? fastest : usual;
  Finding finding{.bytes = bytes,
                  .by_default = by_default,
                  .default_us = usual.median(),
                  .best = best.algorithm,
                  .best_us = best.median(),
                  .runs = best.us.size()};
  for (const Contender& each : all) {
    if (each.algorithm == best.algorithm) continue;
    finding.runner_up = each.algorithm;
    finding.runner_up_us = each.median();
    break;
  }
  return finding;
}

Status search(std::vector<Subject>& subjects, const Laboratory& laboratory, uint32_t seed) {
  return Searcher(subjects, laboratory, seed).run();
}

}  // namespace banyan::tune
