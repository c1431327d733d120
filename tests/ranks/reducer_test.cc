// Reducers sum exactly what they were given, with the same bits in whatever order and by whatever
// threads tensors become ready, beside other calls and other reducers.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <random>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "tests/ranks/ranks_fixture.h"
#include "tests/ranks/ranks_values.h"
#include "tests/ranks/reducer_model.h"
#include "tests/support/effort.h"

namespace banyan::test::reducer_test {
namespace {

class Reducers : public WithRanks {};

double epsilon_of(banyan_datatype_t type) {
  return type == BANYAN_FLOAT16    ? 0x1p-10
         : type == BANYAN_BFLOAT16 ? 0x1p-7
         : type == BANYAN_FLOAT64  ? 0x1p-52
                                   : 0x1p-23;
}

// Sums are exact, and means are rounded once.
bool are_whole_sums(Rank& self, const Model& model, uint64_t step, banyan_op_t op, int ranks) {
  for (size_t t = 0; t < model.size(); ++t)
    for (size_t i = 0; i < model.count(t); ++i) {
      double sum = 0;
      for (int rank = 0; rank < ranks; ++rank) sum += whole_gradient(model.id(t), step, rank, i);
      const double wanted = op == BANYAN_AVG ? sum / ranks : sum;
      const double slack = op == BANYAN_AVG ? std::abs(wanted) * epsilon_of(model.type(t)) : 0;
      if (std::abs(model.at(t, i) - wanted) <= slack) continue;
      self.fail(fmt::format("step {}, element {} of tensor {} is {}, expected {}", step, i,
                            model.id(t), model.at(t, i), wanted));
      return false;
    }
  return true;
}

std::vector<Layer> mixed_layers() {
  constexpr banyan_datatype_t kTypes[] = {BANYAN_FLOAT32, BANYAN_FLOAT16, BANYAN_BFLOAT16,
                                          BANYAN_FLOAT64};
  constexpr size_t kCounts[] = {1, 0, 7, 300, 4096, 33, 5001, 1025, 0, 2};
  std::vector<Layer> layers;
  for (size_t i = 0; i < 24; ++i)
    layers.push_back({.id = 5000 - 37 * i, .count = kCounts[i % 10], .type = kTypes[i / 2 % 4]});
  return layers;
}

void reduce_whole(Rank& self, banyan_comm_t comm, std::span<const Layer> layers,
                  const banyan_reducer_config_t& config, uint64_t steps) {
  Model model(layers);
  const banyan_reducer_t reducer = make_reducer(self, comm, model, config);
  if (reducer == nullptr) return;
  for (uint64_t step = 0; step < steps; ++step) {
    self.where(fmt::format("step {}, buckets of {} bytes", step, config.bucket_bytes));
    model.fill(step, self.rank(), whole_gradient);
    if (!reduce(self, reducer, model, mix(step * 31 + static_cast<uint64_t>(self.rank())))) return;
    if (!are_whole_sums(self, model, step, config.op, self.size())) return;
    self.agree(model.digest(), "sums");
  }
  self.expect_ok(banyan_reducer_destroy(reducer), "banyan_reducer_destroy");
}

TEST_P(Reducers, SumExactly) {
  for (int size = 1; size <= 9; size += size < 5 ? 1 : 2)
    run_joined(size, [&](Rank& self, banyan_comm_t comm) {
      for (const banyan_op_t op : {BANYAN_SUM, BANYAN_AVG})
        for (const size_t bytes : {64, 16384, 0}) {
          banyan_reducer_config_t config = reducer_config(op);
          config.bucket_bytes = bytes;
          reduce_whole(self, comm, mixed_layers(), config, 3);
        }
    });
}

TEST_P(Reducers, SumATensorThatIsLongerThanABucket) {
  run_joined(3, [](Rank& self, banyan_comm_t comm) {
    const Layer layers[] = {{.id = 1, .count = 10},
                            {.id = 2, .count = 200'003},
                            {.id = 3, .count = 70'001, .type = BANYAN_FLOAT16},
                            {.id = 4, .count = 70'001, .type = BANYAN_BFLOAT16, .dimensions = 1}};
    banyan_reducer_config_t config = reducer_config(BANYAN_AVG);
    config.bucket_bytes = 65536;
    reduce_whole(self, comm, layers, config, 3);
  });
}

TEST_P(Reducers, SumAThousandTensorsOfOneElement) {
  run_joined(2, [](Rank& self, banyan_comm_t comm) {
    std::vector<Layer> layers;
    for (uint64_t id = 0; id < 1000; ++id) layers.push_back({.id = id * 3, .count = 1});
    reduce_whole(self, comm, layers, reducer_config(), 3);
  });
}

TEST_P(Reducers, HaveTensorsWithoutElements) {
  run_joined(2, [](Rank& self, banyan_comm_t comm) {
    for (const banyan_datatype_t type : {BANYAN_FLOAT32, BANYAN_FLOAT16})
      for (const size_t others : {0, 5}) {
        const Layer layers[] = {{.id = 1, .count = 0, .type = type},
                                {.id = 2, .count = others, .type = BANYAN_FLOAT64},
                                {.id = 3, .count = 0, .type = type}};
        reduce_whole(self, comm, layers, reducer_config(), 3);
      }
    // No memory has no address.
    const Layer layers[] = {{.id = 1, .count = 0}};
    Model model(layers);
    const banyan_reducer_t reducer = make_reducer(self, comm, model, reducer_config());
    self.expect_ok(banyan_reducer_ready(reducer, 1, nullptr), "ready");
    self.expect_ok(banyan_reducer_wait(reducer, 1), "wait");
    self.expect_ok(banyan_reducer_destroy(reducer), "destroy");
  });
}

// Large tensors, and small ones that share buckets.
std::vector<Layer> layers_to_compress() {
  std::vector<Layer> layers = {{.id = 900, .count = 5000},
                               {.id = 17, .count = 6234, .type = BANYAN_BFLOAT16},
                               {.id = 40, .count = 9001}};
  for (uint64_t id = 1; id < 12; ++id) layers.push_back({.id = id, .count = 10 + 301 * id});
  return layers;
}

TEST_P(Reducers, HaveTheSameBitsInAnyOrder) {
  for (const char* codec : {"off", "int8", "int8+sr", "threshold:1", "topk:0.1", "randk:0.1"})
    run_ranks(GetParam(), 3, [&](Rank& self) {
      const banyan_comm_t comm = join_with(self, codec);
      if (comm == nullptr) return;
      constexpr uint64_t kSteps = 5;
      uint64_t first[kSteps] = {};
      for (uint64_t life = 0; life < 2; ++life) {
        Model model(layers_to_compress());
        banyan_reducer_config_t config = reducer_config();
        config.bucket_bytes = 30'000;
        const banyan_reducer_t reducer = make_reducer(self, comm, model, config);
        if (reducer == nullptr) return;
        for (uint64_t step = 0; step < kSteps; ++step) {
          self.where(fmt::format("{}, life {}, step {}", codec, life, step));
          model.fill(step, self.rank());
          const auto rank = static_cast<uint64_t>(self.rank());
          if (!reduce(self, reducer, model, mix(step * 7 + rank * 100 + life * 10'000))) return;
          self.agree(model.digest(), "sums");
          if (life == 0) first[step] = model.digest();
          self.expect(model.digest() == first[step], "another order gives other bits");
        }
        self.expect_ok(banyan_reducer_destroy(reducer), "destroy");
      }
      self.leave(comm);
    });
}

uint64_t steps_by_threads() {
  if (std::getenv("BANYAN_TEST_LONG") != nullptr) return 10'000;
  return is_brief() ? 40 : 200;
}

// Each takes its share of an order by chance, and waits for the last of its tensors.
void reduce_by_threads(Rank& self, banyan_reducer_t reducer, Model& model, uint64_t seed) {
  constexpr size_t kThreads = 10;
  std::vector<size_t> order(model.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      for (size_t i = thread; i < order.size(); i += kThreads)
        self.expect_ok(banyan_reducer_ready(reducer, model.id(order[i]), model.gradient(order[i])),
                       "ready");
      self.expect_ok(banyan_reducer_wait(reducer, model.id(order[thread])), "wait for one");
    });
  for (std::thread& thread : threads) thread.join();
  self.expect_ok(banyan_reducer_wait(reducer, BANYAN_ALL_TENSORS), "wait");
}

TEST_P(Reducers, TakeTensorsFromTenAtOnce) {
  run_ranks(GetParam(), 2,
            [](Rank& self) {
              const banyan_comm_t comm = join_with(self, "int8");
              if (comm == nullptr) return;
              std::vector<Layer> layers;
              for (uint64_t id = 1; id <= 60; ++id)
                layers.push_back({.id = id, .count = 1 + 37 * id % 500, .dimensions = 1});
              layers.push_back({.id = 100, .count = 5000});
              Model model(layers), alone(layers);
              banyan_reducer_config_t config = reducer_config(BANYAN_AVG);
              config.bucket_bytes = 4096;
              const banyan_reducer_t reducer = make_reducer(self, comm, model, config);
              const banyan_reducer_t other = make_reducer(self, comm, alone, config);
              if (reducer == nullptr || other == nullptr) return;
              for (uint64_t step = 0; step < steps_by_threads(); ++step) {
                self.where(fmt::format("step {} by ten threads", step));
                model.fill(step, self.rank());
                alone.fill(step, self.rank());
                reduce_by_threads(self, reducer, model,
                                  mix(step * 13 + static_cast<uint64_t>(self.rank())));
                if (!reduce(self, other, alone, 1)) return;
                if (!self.expect(model.digest() == alone.digest(), "threads give other bits"))
                  return;
              }
              self.expect_ok(banyan_reducer_destroy(reducer), "destroy");
              self.expect_ok(banyan_reducer_destroy(other), "destroy");
              self.leave(comm);
            },
            {.limit_s = std::getenv("BANYAN_TEST_LONG") != nullptr ? 1200.0 : 60.0});
}

// Two reducers, whose steps the ranks interleave each in its own way, and calls in between.
TEST_P(Reducers, WorkBesideOthers) {
  run_joined(3, [](Rank& self, banyan_comm_t comm) {
    const Layer few[] = {{.id = 1, .count = 5000}, {.id = 2, .count = 70'001}};
    const Layer many[] = {{.id = 1, .count = 3}, {.id = 2, .count = 3}, {.id = 7, .count = 9000}};
    Model first(few), second(many);
    const banyan_reducer_t a = make_reducer(self, comm, first, reducer_config());
    const banyan_reducer_t b = make_reducer(self, comm, second, reducer_config(BANYAN_AVG));
    if (a == nullptr || b == nullptr) return;
    for (uint64_t step = 0; step < 20; ++step) {
      first.fill(step, self.rank(), whole_gradient);
      second.fill(step, self.rank(), whole_gradient);
      const bool turned = (step + static_cast<uint64_t>(self.rank())) % 2 == 0;
      self.expect_ok(turned ? make_ready(a, first, step) : make_ready(b, second, step), "ready");
      self.verify(comm, 1000, step);  // while they are under way
      self.expect_ok(turned ? make_ready(b, second, step) : make_ready(a, first, step), "ready");
      self.verify(comm, 10, step);
      self.expect_ok(banyan_reducer_wait(turned ? b : a, BANYAN_ALL_TENSORS), "wait");
      self.expect_ok(banyan_reducer_wait(turned ? a : b, BANYAN_ALL_TENSORS), "wait");
      if (!are_whole_sums(self, first, step, BANYAN_SUM, self.size()) ||
          !are_whole_sums(self, second, step, BANYAN_AVG, self.size()))
        return;
    }
    self.expect_ok(banyan_reducer_destroy(a), "destroy");
    self.expect_ok(banyan_reducer_destroy(b), "destroy");
  });
}

// Rank 1 comes late. What has not been waited for is not in the way of another tensor's next step.
TEST_P(Reducers, DoNotBlockWhoHasATensor) {
  run_joined(2, [](Rank& self, banyan_comm_t comm) {
    const Layer layers[] = {{.id = 1, .count = 300}, {.id = 2, .count = 300'000}};
    Model model(layers), next(layers);
    banyan_reducer_config_t config = reducer_config();
    config.bucket_bytes = 4096;  // a bucket for each
    const banyan_reducer_t reducer = make_reducer(self, comm, model, config);
    if (reducer == nullptr) return;
    model.fill(0, self.rank(), whole_gradient);
    next.fill(1, self.rank(), whole_gradient);
    if (self.rank() == 1) self.meet();  // rank 0 has begun
    const TimePoint began = Clock::now();
    for (const size_t t : {0, 1})
      self.expect_ok(banyan_reducer_ready(reducer, model.id(t), model.gradient(t)), "ready");
    self.expect(seconds_since(began) < stall_s(), "it does not wait for rank 1");
    if (self.rank() == 0) self.meet();
    self.expect_ok(banyan_reducer_wait(reducer, 1), "wait for one");
    const TimePoint again = Clock::now();
    self.expect_ok(banyan_reducer_ready(reducer, 1, next.gradient(0)),
                   "the next step of a tensor that was waited for");
    self.expect(seconds_since(again) < stall_s(), "it does not wait for the other tensor");
    self.expect_code(banyan_reducer_ready(reducer, 2, next.gradient(1)), BANYAN_ERR_INVALID_USAGE,
                     "the next step of one that was not");
    self.expect(last_text().find("tensor 2 ('layer2') is ready already") != std::string_view::npos,
                last_text());
    self.expect_ok(banyan_reducer_wait(reducer, 2), "wait for the other");
    are_whole_sums(self, model, 0, BANYAN_SUM, 2);
    self.expect_ok(banyan_reducer_ready(reducer, 2, next.gradient(1)), "ready");
    self.expect_ok(banyan_reducer_wait(reducer, BANYAN_ALL_TENSORS), "wait for the next step");
    are_whole_sums(self, next, 1, BANYAN_SUM, 2);
    self.expect_ok(banyan_reducer_destroy(reducer), "destroy");
  });
}

// A wait may come before its tensor is ready; one for all returns at once where
// nothing is on its way.
TEST_P(Reducers, WaitForWhatIsNotReadyYet) {
  run_joined(2, [](Rank& self, banyan_comm_t comm) {
    const Layer layers[] = {{.id = 1, .count = 300}, {.id = 2, .count = 3000}};
    Model model(layers);
    const banyan_reducer_t reducer = make_reducer(self, comm, model, reducer_config());
    if (reducer == nullptr) return;
    self.expect_ok(banyan_reducer_wait(reducer, BANYAN_ALL_TENSORS), "nothing is ready");
    for (uint64_t step = 0; step < 5; ++step) {
      model.fill(step, self.rank(), whole_gradient);
      std::vector<std::thread> threads;
      for (const uint64_t id : {1, 2})
        threads.emplace_back(
            [&, id] { self.expect_ok(banyan_reducer_wait(reducer, id), "an early wait"); });
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the threads wait by now
      self.expect_ok(make_ready(reducer, model, step), "ready");
      for (std::thread& thread : threads) thread.join();
      are_whole_sums(self, model, step, BANYAN_SUM, 2);
      self.expect_ok(banyan_reducer_wait(reducer, BANYAN_ALL_TENSORS), "all were waited for");
    }
    self.expect(stats_of(self, reducer).steps == 5, "five steps");
    self.expect_ok(banyan_reducer_destroy(reducer), "destroy");
  });
}

INSTANTIATE_TEST_SUITE_P(All, Reducers, both_kinds(), testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::reducer_test
