// What reducers do beyond sums, against plain code: momentum correction, clipping, warm-up, rules,
// figures, and exact steps for tensors whose codec does not keep up.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/ranks/ranks_fixture.h"
#include "tests/ranks/ranks_values.h"
#include "tests/ranks/reducer_model.h"
#include "tests/support/temporary_folder.h"

namespace banyan::test::reducer_figures_test {
namespace {

class ReducersDo : public WithRanks {};

// No two of a vector have one magnitude, so that which are the largest is no question.
double distinct_gradient(uint64_t id, uint64_t step, int rank, size_t i) {
  const uint64_t random = mix(mix(id * 131 + step * 1009 + static_cast<uint64_t>(rank)) + i);
  const double magnitude = static_cast<double>(random % 2048 * 8192 + i) / 0x1p20;
  return random % 4096 < 2048 ? magnitude : -magnitude;
}

// DGC on one rank, by the paper: u = m u + g, v = v + u; of v the largest are sent, and both are
// zero there afterwards.
struct PlainMomentum {
  explicit PlainMomentum(size_t count) : u(count), v(count) {}

  // What is sent.
  std::vector<float> step(uint64_t number, int rank, float momentum, size_t kept) {
    std::vector<float> magnitudes;
    for (size_t i = 0; i < u.size(); ++i) {
      const auto gradient = static_cast<float>(distinct_gradient(1, number, rank, i));
      u[i] = momentum * u[i] + gradient;
      v[i] += u[i];
      magnitudes.push_back(std::abs(v[i]));
    }
    std::nth_element(magnitudes.begin(), magnitudes.begin() + static_cast<ptrdiff_t>(kept - 1),
                     magnitudes.end(), std::greater<>());
    const float least = magnitudes[kept - 1];
    std::vector<float> sent(u.size());
    for (size_t i = 0; i < u.size(); ++i) {
      if (std::abs(v[i]) < least) continue;
      sent[i] = v[i];
      u[i] = v[i] = 0;
    }
    return sent;
  }

  std::vector<float> u, v;
};

// Calls body(reducer) with a reducer of the model. It returns false after a failure, which is
// recorded.
template <typename Body>
void with_reducer(Rank& self, const char* codec, const Model& model,
                  const banyan_reducer_config_t& config, const Body& body) {
  const banyan_comm_t comm = join_with(self, codec);
  if (comm == nullptr) return;
  const banyan_reducer_t reducer = make_reducer(self, comm, model, config);
  if (reducer == nullptr || !body(reducer)) return;
  self.expect_ok(banyan_reducer_destroy(reducer), "destroy");
  self.leave(comm);
}

banyan_reducer_config_t with_momentum(double momentum) {
  banyan_reducer_config_t config = reducer_config();
  config.momentum = momentum;
  return config;
}

TEST_P(ReducersDo, CorrectMomentum) {
  constexpr size_t kCount = 5000;
  for (const char* codec : {"topk:0.01", "topk:0.1"})
    run(3, [&](Rank& self) {
      self.where(codec);
      Model model(std::vector<Layer>{{.id = 1, .count = kCount}});
      with_reducer(self, codec, model, with_momentum(0.75), [&](banyan_reducer_t reducer) {
        const size_t kept = std::string_view(codec).substr(5, 4) != "0.01" ? 500 : 50;
        std::vector<PlainMomentum> plain(3, PlainMomentum(kCount));
        for (uint64_t step = 0; step < 8; ++step) {
          model.fill(step, self.rank(), distinct_gradient);
          if (!reduce(self, reducer, model, step)) return false;
          std::vector<float> sums(kCount);
          for (int rank = 0; rank < 3; ++rank) {
            const auto sent = plain[static_cast<size_t>(rank)].step(step, rank, 0.75F, kept);
            for (size_t i = 0; i < kCount; ++i) sums[i] += sent[i];
          }
          for (size_t i = 0; i < kCount; ++i)
            if (model.at(0, i) != static_cast<double>(sums[i])) {
              self.fail(fmt::format("step {}, element {}: {}, expected {}", step, i, model.at(0, i),
                                    sums[i]));
              return false;
            }
          const Checkpoint state = state_of(self, reducer);
          const PlainMomentum& mine = plain[static_cast<size_t>(self.rank())];
          self.expect(state.tensors[0].residual == mine.v, fmt::format("residual, step {}", step));
          self.expect(state.tensors[0].momentum == mine.u, fmt::format("momentum, step {}", step));
        }
        return true;
      });
    });
}

// What is sent of a value is not all of it, but its velocity is over all the same.
TEST_P(ReducersDo, CorrectMomentumOfWhatIsRounded) {
  constexpr size_t kCount = 5000;
  for (const char* codec : {"topk:0.1:fp16", "sign:1.5"})
    run(2, [&](Rank& self) {
      self.where(codec);
      Model model(std::vector<Layer>{{.id = 1, .count = kCount}});
      with_reducer(self, codec, model, with_momentum(0.75), [&](banyan_reducer_t reducer) {
        model.fill(0, self.rank(), distinct_gradient);
        PlainMomentum plain(kCount);
        (void)plain.step(0, self.rank(), 0.75F, kCount / 10);
        if (codec[0] == 's')
          for (size_t i = 0; i < kCount; ++i)
            plain.u[i] = std::abs(model.at(0, i)) > 1.5 ? 0 : static_cast<float>(model.at(0, i));
        if (!reduce(self, reducer, model, 1)) return false;
        self.expect(state_of(self, reducer).tensors[0].momentum == plain.u, codec);
        return true;
      });
    });
}

// One rank sends nothing and so leaves nothing: its sums are the velocities of plain momentum.
TEST_P(ReducersDo, CorrectMomentumOfOneRank) {
  run(1, [](Rank& self) {
    Model model(std::vector<Layer>{{.id = 1, .count = 5000}});
    with_reducer(self, "topk:0.01", model, with_momentum(0.5), [&](banyan_reducer_t reducer) {
      std::vector<double> velocity(5000);
      for (uint64_t step = 0; step < 5; ++step) {
        model.fill(step, 0);
        if (!reduce(self, reducer, model, step)) return false;
        for (size_t i = 0; i < velocity.size(); ++i) {
          velocity[i] = velocity[i] / 2 + fine_gradient(1, step, 0, i);
          if (model.at(0, i) != velocity[i]) {
            self.fail("a velocity");
            return false;
          }
        }
      }
      return true;
    });
  });
}

double norm_of(const Model& model, size_t tensor) {
  double squares = 0;
  for (size_t i = 0; i < model.count(tensor); ++i) {
    const double value = model.at(tensor, i);
    squares += value * value;
  }
  return std::sqrt(squares);
}

double squares_of(const std::vector<float>& values) {
  double squares = 0;
  for (const float value : values)
    squares += static_cast<double>(value) * static_cast<double>(value);
  return squares;
}

// Each compressed tensor by itself; exact ones are as they are.
TEST_P(ReducersDo, ClipEachTensor) {
  run(4, [](Rank& self) {
    Model model(std::vector<Layer>{{.id = 1, .count = 20'000},
                                   {.id = 2, .count = 5000, .type = BANYAN_FLOAT16},
                                   {.id = 3, .count = 9000, .dimensions = 1}});
    banyan_reducer_config_t config = reducer_config();
    config.clip_norm = 200;  // 100 on each of four ranks
    config.bucket_bytes = 30'000;
    with_reducer(self, "bf16", model, config, [&](banyan_reducer_t reducer) {
      // The first tensor has three buckets, which go in another order once times are known.
      for (uint64_t step = 0; step < 5; ++step) {
        model.fill(0, 0);  // alike on all ranks
        for (size_t i = 0; i < model.count(0); ++i)
          model.set(0, i, model.at(0, i) * std::exp2(2 * static_cast<double>(step)));
        const double norms[] = {norm_of(model, 0), norm_of(model, 1), norm_of(model, 2)};
        self.expect(norms[0] > 100 && norms[1] < 100 && norms[2] > 100, "the test");
        if (!reduce(self, reducer, model, 1)) return false;
        const double wanted[] = {400, 4 * norms[1], 4 * norms[2]};
        for (size_t t = 0; t < 3; ++t) {
          const double norm = norm_of(model, t);
          self.expect(std::abs(norm / wanted[t] - 1) < 0.01,
                      fmt::format("step {}, tensor {}: {}, expected {}", step, t, norm, wanted[t]));
        }
      }
      return true;
    });
  });
}

// One bucket: a quarter, an eighth and so on, of which each rank sends so many values. Two ranks
// send a half of their contribution, and what came together.
TEST_P(ReducersDo, WarmUp) {
  run(2, [](Rank& self) {
    constexpr size_t kCount = 40'960;
    Model model(std::vector<Layer>{{.id = 1, .count = kCount}});
    banyan_reducer_config_t config = reducer_config();
    config.warmup_steps = 6;
    with_reducer(self, "randk:0.05", model, config, [&](banyan_reducer_t reducer) {
      uint64_t before = 0;
      for (uint64_t step = 0; step < 9; ++step) {
        model.fill(step, self.rank());
        if (!reduce(self, reducer, model, 1)) return false;
        const uint64_t sent = stats_of(self, reducer, 1).bytes_sent;
        const uint64_t stair = step / 2;
        const double density = step >= 6 ? 0.05 : 0.25 * std::exp2(-static_cast<double>(stair));
        const double values = density * kCount;  // a half in each direction, of four bytes
        self.expect(std::abs(static_cast<double>(sent - before) / (4 * values) - 1) < 0.1,
                    fmt::format("step {}: {} bytes, expected {}", step, sent - before, 4 * values));
        before = sent;
      }
      return true;
    });
  });
}

bool came_exact(const Model& model, size_t tensor, int ranks) {
  for (size_t i = 0; i < model.count(tensor); ++i) {
    double sum = 0;
    for (int rank = 0; rank < ranks; ++rank) sum += fine_gradient(model.id(tensor), 0, rank, i);
    if (model.at(tensor, i) != sum) return false;
  }
  return true;
}

TEST_P(ReducersDo, AsRulesSay) {
  struct Plan {
    const char* ceiling;
    const char* rules;
    std::string_view exact;  // a letter for each tensor: e or c
  };
  for (const Plan plan : {Plan{"int8", nullptr, "ceec"}, Plan{"int8", "layer1=off;*=int8", "eccc"},
                          Plan{"int8", "layer[14]=off", "eeee"}, Plan{nullptr, nullptr, "eeec"},
                          Plan{nullptr, "layer1=topk:0.1;*2=e5m2", "ccec"}})
    run(2, [&](Rank& self) {
      self.where(plan.rules == nullptr ? "no rules" : plan.rules);
      Model model(std::vector<Layer>{{.id = 1, .count = 8000},
                                     {.id = 2, .count = 8000, .dimensions = 1},
                                     {.id = 3, .count = 500},
                                     {.id = 4, .count = 8000}});
      const banyan_compression_t own = codec_named("int8");
      const bool has_own = plan.exact[3] == 'c' && plan.ceiling == nullptr;
      if (has_own) model.compress(3, &own);  // before rules
      banyan_reducer_config_t config = reducer_config();
      config.rules = plan.rules;
      with_reducer(self, plan.ceiling, model, config, [&](banyan_reducer_t reducer) {
        model.fill(0, self.rank());
        if (!reduce(self, reducer, model, 1)) return false;
        for (size_t t = 0; t < model.size(); ++t)
          self.expect(came_exact(model, t, 2) == (plan.exact[t] == 'e'),
                      fmt::format("tensor {}", model.id(t)));
        return true;
      });
    });
}

TEST_P(ReducersDo, CountWhatTheySend) {
  run(2, [](Rank& self) {
    constexpr uint64_t kSteps = 3;
    Model model(std::vector<Layer>{{.id = 1, .count = 40'960},
                                   {.id = 2, .count = 40'960},
                                   {.id = 3, .count = 8192, .dimensions = 1},
                                   {.id = 4, .count = 1001, .dimensions = 1}});
    with_reducer(self, "int8", model, reducer_config(), [&](banyan_reducer_t reducer) {
      double wanted = 0;  // of what the last step had to say
      for (uint64_t step = 0; step < kSteps; ++step) {
        model.fill(step, self.rank());
        const std::vector<float> before = state_of(self, reducer).tensors[0].residual;
        wanted = 0;
        for (size_t i = 0; i < model.count(0); ++i) {
          const double value = model.at(0, i) + static_cast<double>(before[i]);
          wanted += value * value;
        }
        if (!reduce(self, reducer, model, step)) return false;
      }
      banyan_tensor_stats_t each[4];
      uint64_t sent = 0, raw = 0;
      double squares = 0;
      for (size_t t = 0; t < 4; ++t) {
        each[t] = stats_of(self, reducer, model.id(t));
        self.expect(each[t].steps == kSteps, "steps");
        self.expect(each[t].bytes_raw == kSteps * 4 * model.count(t), "bytes of its elements");
        self.expect(each[t].wait_seconds >= 0 && each[t].codec_seconds >= 0, "seconds");
        sent += each[t].bytes_sent;
        raw += each[t].bytes_raw;
        squares += each[t].residual_norm * each[t].residual_norm;
      }
      const banyan_tensor_stats_t all = stats_of(self, reducer);
      self.expect(all.steps == kSteps && all.bytes_raw == raw && all.bytes_sent == sent, "of all");
      self.expect(std::abs(all.residual_norm - std::sqrt(squares)) < 1e-9, "the norm of all");
      // Ten superblocks each: a half of the contribution, and a half of the sum.
      self.expect(each[0].bytes_sent + each[1].bytes_sent == kSteps * 20 * (4096 + 64),
                  fmt::format("{} bytes by int8", each[0].bytes_sent + each[1].bytes_sent));
      self.expect(each[2].bytes_sent + each[3].bytes_sent == kSteps * 4 * (8192 + 1001),
                  fmt::format("{} bytes, exact", each[2].bytes_sent + each[3].bytes_sent));
      self.expect(each[2].error_nmse == 0 && each[2].residual_norm == 0, "exact ones lose nothing");
      const Checkpoint state = state_of(self, reducer);
      const double error = squares_of(state.tensors[0].residual) / wanted;
      self.expect(std::abs(each[0].error_nmse / error - 1) < 1e-9,
                  fmt::format("{}, expected {}", each[0].error_nmse, error));
      self.expect(error > 1e-6 && error < 1e-3, fmt::format("an error of {}", error));
      double left = 0;
      for (const TensorState& tensor : state.tensors) left += squares_of(tensor.residual);
      self.expect(std::abs(all.residual_norm - std::sqrt(left)) < 1e-6, "what is left");
      self.expect(all.codec_seconds > 0 && all.wait_seconds > 0 && all.fallbacks == 0, "of all");
      return true;
    });
  });
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

size_t times_in(const std::string& text, std::string_view part) {
  size_t times = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++times;
  return times;
}

// Nothing is ever sent by this codec: when a thousand gradients are left, all of it goes at once.
TEST_P(ReducersDo, SendExactlyWhatACodecDoesNotSay) {
  const TemporaryFolder folder;
  constexpr size_t kCount = 5000;
  run(2,
      [&](Rank& self) {
        Model model(std::vector<Layer>{{.id = 1, .count = kCount}, {.id = 2, .count = kCount}});
        with_reducer(
            self, "threshold:1e30", model, reducer_config(), [&](banyan_reducer_t reducer) {
              uint64_t silent = 0, exact = 0;
              double out = 0;
              for (uint64_t step = 0; step < 1200; ++step) {
                for (size_t t = 0; t < 2; ++t)
                  for (size_t i = 0; i < kCount; ++i) model.set(t, i, t == 0 ? 0.5 : 0);
                if (!reduce(self, reducer, model, 1)) return false;
                const double first = model.at(0, 17);
                out += first;
                if (exact > 0 && first == 0) break;
                ++(first == 0 ? silent : exact);
              }
              self.expect(silent > 1024 && silent <= 1024 + 17,
                          fmt::format("silent for {}", silent));
              self.expect(exact == 64, fmt::format("exact for {}", exact));
              self.expect(out == static_cast<double>(silent + exact),
                          fmt::format("{} came out", out));
              self.expect(stats_of(self, reducer, 1).fallbacks == 1, "a tensor falls back");
              self.expect(
                  state_of(self, reducer).tensors[0].residual == std::vector<float>(kCount, 0.5F),
                  "it is compressed again");
              return true;
            });
      },
      {.limit_s = 60, .environment = {{"BANYAN_DEBUG_FILE", folder.path() / "%r.log"}}});
  for (const char* name : {"0.log", "1.log"}) {
    const std::string text = text_of(folder.path() / name);
    EXPECT_EQ(times_in(text, "tensor 1 ('layer1') is exact for 64 steps"), 1) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReducersDo, both_kinds(), testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::reducer_figures_test
