// SPDX-License-Identifier: Apache-2.0

#include "bench/choices/fit.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/choice/machine_cost.h"
#include "algorithms/cost/cost.h"

namespace banyan::choices {
namespace {

// What may be changed of a model.
std::vector<std::pair<const char*, double*>> figures_of(CostModel& model) {
  const auto of = [](const char* name, Figure& figure) {
    return std::pair<const char*, double*>(name, &*figure.value);
  };
  return {of("call", model.call),
          of("alpha", model.within.alpha),
          of("overhead", model.within.overhead),
          of("send_byte", model.within.send_byte),
          of("recv_byte", model.within.recv_byte),
          of("long_overhead", model.within.long_overhead),
          of("long_byte", model.within.long_byte),
          of("far_byte", model.within.far_byte),
          of("turn", model.turn),
          of("reduce_byte", model.reduce_byte),
          of("reduce_far_byte", model.reduce_far_byte),
          of("copy_byte", model.copy_byte),
          of("copy_far_byte", model.copy_far_byte),
          {"cache_bytes", &model.cache_bytes}};
}

// Tells how much the choice by a model loses, and how far off its times are. Choices that lose
// little are all alike: what is measured scatters as much.
double badness(const std::vector<Point>& points, const CostModel& model) {
  double sum = 0;
  for (const Point& point : points) {
    CostModel here = model;
    here.cores = memory_model(point.ranks, point.medium).cores;
    double best = INFINITY, chosen = 0, least = INFINITY, error = 0;
    double soft = 0, weights = 0;
    for (const Entry& entry : point.entries) {
      const double time = predict(point.problem, entry.algorithm, point.ranks, here);
      least = std::min(least, entry.us);
      error += std::abs(std::log(time / entry.us)) / static_cast<double>(point.entries.size());
      if (time < best) {
        best = time;
        chosen = entry.us;
      }
    }
    // Smooth, so that a climb finds its way.
    for (const Entry& entry : point.entries) {
      const double time = predict(point.problem, entry.algorithm, point.ranks, here);
      const double weight = std::exp(-20 * (time / best - 1));
      soft += weight * std::min(entry.us / least - 1, 1.0);
      weights += weight;
    }
    const double regret = std::max(chosen / least - 1, 0.0);
    sum += std::min(regret, 1.0) + (regret > 0.15 ? 0.15 : 0) + soft / weights + 0.1 * error;
  }
  return sum / static_cast<double>(points.size());
}

}  // namespace

std::string fit(const std::vector<Point>& points, CostModel model, int steps, uint64_t seed) {
  std::mt19937_64 random(seed);
  double best = badness(points, model);
  for (int step = 0; step < steps; ++step) {
    CostModel trial = model;
    auto figures = figures_of(trial);
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int change = 0; change < changes; ++change) {
      double& value = *figures[random() % figures.size()].second;
      const double reach = step % 3 == 0 ? 1.5 : 0.25;
      value *= std::exp(std::normal_distribution<double>(0, reach)(random));
    }
    const double now = badness(points, trial);
    if (now < best) {
      best = now;
      model = trial;
    }
  }
  std::string text = fmt::format("loses {:.4f}", best);
  for (const auto& [name, value] : figures_of(model))
    text += fmt::format(", {} {:.4g}", name, *value);
  return text;
}

}  // namespace banyan::choices
