// How reducers fail: the same verdict on all ranks, whatever a rank does or does not do; what is
// kept is that of the last step that ended; misuse is refused and fails nothing.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "tests/ranks/ranks_fixture.h"
#include "tests/ranks/ranks_values.h"
#include "tests/ranks/reducer_model.h"

namespace banyan::test::reducer_failures_test {
namespace {

std::vector<Layer> layers_that_fail() {
  return {{.id = 1, .count = 5000},
          {.id = 2, .count = 300, .dimensions = 1},
          {.id = 3, .count = 70'001},
          {.id = 4, .count = 6000}};
}

struct Failing {
  banyan_comm_t comm = nullptr;
  banyan_reducer_t reducer = nullptr;
};

// Null: it could not be made, which is recorded.
Failing make_failing(Rank& self, const Model& model, double timeout_s = 20,
                     size_t bucket_bytes = 30'000) {
  Failing made;
  made.comm = join_with(self, "threshold:1", timeout_s);
  if (made.comm == nullptr) return made;
  banyan_reducer_config_t config = reducer_config();
  config.bucket_bytes = bucket_bytes;
  made.reducer = make_reducer(self, made.comm, model, config);
  return made;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// The failure is that of the reducer and of its communicator, in every later call; then both go.
void end_failed(Rank& self, const Failing& failed, Model& model, banyan_result_t code) {
  self.report(failed.comm, banyan_reducer_wait(failed.reducer, BANYAN_ALL_TENSORS));
  self.expect_code(banyan_reducer_ready(failed.reducer, 1, model.gradient(0)), code, "ready");
  self.expect_code(banyan_reducer_wait(failed.reducer, 2), code, "wait for one");
  self.expect_code(banyan_barrier(failed.comm), code, "a call on the communicator");
  self.expect_code(banyan_comm_destroy(failed.comm), BANYAN_ERR_INVALID_USAGE,
                   "destroy with a reducer");
  self.expect_ok(banyan_reducer_destroy(failed.reducer), "banyan_reducer_destroy");
  self.expect_ok(banyan_comm_destroy(failed.comm), "banyan_comm_destroy");
}

// Each rank makes it of another length.
void make_a_call_that_differs(Rank& self, banyan_comm_t comm) {
  std::vector<float> values(100);
  const auto count = size_t{10} + static_cast<size_t>(self.rank());
  self.expect_code(
      banyan_allreduce(values.data(), values.data(), count, BANYAN_FLOAT32, BANYAN_SUM, comm),
      BANYAN_ERR_MISMATCH, "a call that differs");
}

class FailingReducers : public WithRanks {
 protected:
  static void expect_same_verdict(const Job& job, int size, int but, banyan_result_t code,
                                  int failed_rank) {
    for (int rank = 0; rank < size; ++rank) {
      if (rank == but) continue;
      EXPECT_TRUE(job.outcome(rank).seen) << rank;
      EXPECT_EQ(job.outcome(rank).code, code) << job.outcome(rank).text;
      EXPECT_EQ(job.outcome(rank).failed_rank, failed_rank) << job.outcome(rank).text;
      EXPECT_EQ(job.outcome(rank).text, job.outcome(but == 0 ? 1 : 0).text);
    }
  }
};

// Steps until the reducer fails. What is kept then is what the last step left.
void step_until_lost(Rank& self, const Failing& failing, Model& model) {
  std::vector<std::byte> last;
  for (uint64_t step = 0;; ++step) {
    self.where(fmt::format("step {} before a death", step));
    if (step % 8 == 0) last = save(self, failing.reducer);
    model.fill(step, self.rank());
    const banyan_result_t ready = make_ready(failing.reducer, model, step);
    const banyan_result_t ended =
        ready == BANYAN_SUCCESS ? banyan_reducer_wait(failing.reducer, BANYAN_ALL_TENSORS) : ready;
    if (step == 2) self.mark(1);
    if (ended == BANYAN_SUCCESS) continue;
    int lost = -1;
    self.expect_ok(banyan_comm_failed_rank(failing.comm, &lost), "failed_rank");
    self.expect(lost >= 0,
                "the reducer has failed, and its communicator does not know who is lost");
    self.expect_code(ended, BANYAN_ERR_PEER_LOST, "a step");
    const Checkpoint left = state_of(self, failing.reducer);
    // This step may have ended before the failure was known.
    self.expect(left.steps == step || left.steps == step + 1,
                fmt::format("saved after {} steps of {}", left.steps, step));
    const Result<Checkpoint> read = parse_checkpoint(last);
    if (step % 8 == 0 && left.steps == step)
      self.expect(read.ok() && *read == left, "what is saved is not what the last step left");
    return;
  }
}

TEST_P(FailingReducers, EndWhereARankDies) {
  if (GetParam() == Kind::kThreads)
    GTEST_SKIP() << "threads cannot be killed: see the variant with processes";
  for (const int victim : {0, 1, 2})
    for (const double after_s : {0.0, 0.003, 0.011, 0.04}) {
      Job job(GetParam(), 3, [&](Rank& self) {
        Model model(layers_that_fail());
        const Failing failing = make_failing(self, model);
        if (failing.reducer == nullptr) return;
        step_until_lost(self, failing, model);
        end_failed(self, failing, model, BANYAN_ERR_PEER_LOST);
      });
      ASSERT_TRUE(job.wait_for_marks(1, 20));
      job.wait(after_s);
      job.signal(victim, SIGKILL);
      job.finish();
      expect_same_verdict(job, 3, victim, BANYAN_ERR_PEER_LOST, victim);
    }
}

// From another thread, while this one waits for a tensor that the others do not make ready.
TEST_P(FailingReducers, EndWhereARankAborts) {
  constexpr int kVictim = 1;
  Job job(GetParam(), 3, [](Rank& self) {
    Model model(layers_that_fail());
    const Failing failing = make_failing(self, model);
    if (failing.reducer == nullptr) return;
    model.fill(0, self.rank());
    if (!reduce(self, failing.reducer, model, 1)) return;
    self.meet();
    if (self.rank() != kVictim) {
      self.expect_code(banyan_reducer_wait(failing.reducer, 3), BANYAN_ERR_PEER_LOST, "wait");
      return end_failed(self, failing, model, BANYAN_ERR_PEER_LOST);
    }
    self.expect_ok(make_ready(failing.reducer, model, 1), "ready");
    TimePoint returned;
    std::thread waiter([&] {
      self.expect_code(banyan_reducer_wait(failing.reducer, BANYAN_ALL_TENSORS), BANYAN_ERR_ABORTED,
                       "the wait");
      returned = Clock::now();
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(30));  // the other thread waits by now
    const TimePoint aborted = Clock::now();
    self.expect_ok(banyan_comm_abort(failing.comm), "abort");
    waiter.join();
    const double seconds = std::chrono::duration<double>(returned - aborted).count();
    fmt::print("a wait ends {:.2f} ms after an abort\n", seconds * 1e3);
    self.expect(seconds < stall_s(), fmt::format("a wait ends {} s after an abort", seconds));
    end_failed(self, failing, model, BANYAN_ERR_ABORTED);
  });
  job.finish();
  for (const int rank : {0, 2}) {
    EXPECT_EQ(job.outcome(rank).code, BANYAN_ERR_PEER_LOST) << job.outcome(rank).text;
    EXPECT_EQ(job.outcome(rank).failed_rank, kVictim) << job.outcome(rank).text;
  }
  EXPECT_EQ(job.outcome(kVictim).code, BANYAN_ERR_ABORTED);
}

// Rank 0 has a full bucket under way; the others lack a tensor each, and are in another one's wait.
TEST_P(FailingReducers, SayWhichTensorARankLacks) {
  Job job(GetParam(), 3, [](Rank& self) {
    Model model(layers_that_fail());
    const Failing failing = make_failing(self, model, 1.5, 4096);
    if (failing.reducer == nullptr) return;
    model.fill(0, self.rank());
    if (!reduce(self, failing.reducer, model, 1)) return;
    for (size_t t = 0; t < model.size(); ++t)
      if (self.rank() == 0 || t != static_cast<size_t>(self.rank()))
        self.expect_ok(banyan_reducer_ready(failing.reducer, model.id(t), model.gradient(t)),
                       "ready");
    self.expect_code(banyan_reducer_wait(failing.reducer, BANYAN_ALL_TENSORS), BANYAN_ERR_MISMATCH,
                     "wait");
    self.expect(contains(last_text(), "did not become ready on rank"), last_text());
    const Checkpoint left = state_of(self, failing.reducer);
    self.expect(left.steps == 1, "what one step left");
    end_failed(self, failing, model, BANYAN_ERR_MISMATCH);
  });
  job.finish();
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(job.outcome(rank).code, BANYAN_ERR_MISMATCH) << job.outcome(rank).text;
    EXPECT_EQ(job.outcome(rank).text, job.outcome(0).text);
  }
  // The first of them to say so names its own.
  const std::string& text = job.outcome(0).text;
  EXPECT_TRUE(contains(text, "tensor 2 ('layer2') did not become ready on rank 1") ||
              contains(text, "tensor 3 ('layer3') did not become ready on rank 2"))
      << text;
}

TEST_P(FailingReducers, SayThatNoTensorCame) {
  Job job(GetParam(), 2, [](Rank& self) {
    Model model(layers_that_fail());
    const Failing failing = make_failing(self, model, 1.5);
    if (failing.reducer == nullptr) return;
    if (self.rank() == 1) self.expect_ok(make_ready(failing.reducer, model, 1), "ready");
    if (self.rank() == 0)
      self.expect_code(banyan_reducer_wait(failing.reducer, 3), BANYAN_ERR_TIMEOUT, "wait");
    else
      self.wait_until([&] { return wait_for_error(self, failing.comm) != BANYAN_SUCCESS; });
    end_failed(self, failing, model, BANYAN_ERR_TIMEOUT);
  });
  job.finish();
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(job.outcome(rank).code, BANYAN_ERR_TIMEOUT) << job.outcome(rank).text;
    EXPECT_TRUE(contains(job.outcome(rank).text,
                         "tensor 3 ('layer3') did not become ready on rank 0 within"))
        << job.outcome(rank).text;
  }
}

// A call on the caller's communicator fails, in the middle of a step or between steps.
TEST_P(FailingReducers, FailWithTheirCommunicator) {
  for (const bool in_step : {false, true}) {
    Job job(GetParam(), 2, [&](Rank& self) {
      Model model(layers_that_fail());
      const Failing failing = make_failing(self, model);
      if (failing.reducer == nullptr) return;
      model.fill(0, self.rank());
      if (!reduce(self, failing.reducer, model, 1)) return;
      const Checkpoint before = state_of(self, failing.reducer);
      if (in_step)
        self.expect_ok(banyan_reducer_ready(failing.reducer, 2, model.gradient(1)), "ready");
      self.meet();
      make_a_call_that_differs(self, failing.comm);
      self.expect(state_of(self, failing.reducer) == before, "what is kept has changed");
      end_failed(self, failing, model, BANYAN_ERR_MISMATCH);
    });
    job.finish();
    expect_same_verdict(job, 2, -1, BANYAN_ERR_MISMATCH, job.outcome(0).failed_rank);
  }
}

// A bucket may end well between the abort and the end of the thread that hears of it.
TEST_P(FailingReducers, GoWhileTheirBucketsEnd) {
  Job job(GetParam(), 2, [&](Rank& self) {
    for (int round = 0; round < 60; ++round) {
      Model model(layers_that_fail());
      const Failing made = make_failing(self, model);
      if (made.reducer == nullptr) return;
      model.fill(0, self.rank());
      self.meet();
      // The other one may have aborted already.
      (void)make_ready(made.reducer, model, static_cast<uint64_t>(round));
      std::this_thread::sleep_for(std::chrono::microseconds(10 * round));
      self.expect_ok(banyan_comm_abort(made.comm), "abort");
      self.expect_ok(banyan_reducer_destroy(made.reducer), "destroy of the reducer");
      self.expect_ok(banyan_comm_destroy(made.comm), "destroy");
      self.meet();
    }
  });
  job.finish();
}

// A thread that waits for a tensor hears of it, too, whether or not a bucket is under way.
TEST_P(FailingReducers, WakeWhoWaitsWhereTheirCommunicatorFails) {
  for (const bool under_way : {false, true})
    run(2, [&](Rank& self) {
      Model model(layers_that_fail());
      const Failing failing = make_failing(self, model, 15, 4096);
      if (failing.reducer == nullptr) return;
      if (under_way && self.rank() == 0)
        self.expect_ok(make_ready(failing.reducer, model, 1), "ready");
      TimePoint returned;
      std::thread waiter([&] {
        self.expect_code(banyan_reducer_wait(failing.reducer, 3), BANYAN_ERR_MISMATCH, "the wait");
        returned = Clock::now();
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(30));  // the other thread waits by now
      self.meet();
      make_a_call_that_differs(self, failing.comm);
      const TimePoint failed = Clock::now();
      waiter.join();
      const double seconds = std::chrono::duration<double>(returned - failed).count();
      self.expect(seconds < stall_s(), fmt::format("the wait ends {} s later", seconds));
      end_failed(self, failing, model, BANYAN_ERR_MISMATCH);
    });
}

TEST_P(FailingReducers, AreNotMadeOfDifferentTensors) {
  for (const int kind : {0, 1, 2}) {
    Job job(GetParam(), 3, [&](Rank& self) {
      std::vector<Layer> layers = layers_that_fail();
      banyan_reducer_config_t config = reducer_config();
      if (self.rank() == 1 && kind == 0) layers[2].count += 1;
      if (self.rank() == 1 && kind == 1) layers.pop_back();
      if (self.rank() == 1 && kind == 2) config.momentum = 0.5;
      const Model model(layers);
      const banyan_comm_t comm = join_with(self, nullptr);
      if (comm == nullptr) return;
      auto* reducer = reinterpret_cast<banyan_reducer_t>(&config);
      const banyan_result_t result =
          banyan_reducer_create(comm, model.tensors().data(), model.size(), &config, &reducer);
      self.expect(reducer == nullptr, "a reducer after a failure");
      self.report(comm, result);
      self.expect_ok(banyan_comm_destroy(comm), "destroy");
    });
    job.finish();
    constexpr std::string_view kWhat[] = {"tensor 3 ('layer3') of 7000", "number 4",
                                          "other settings"};
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(job.outcome(rank).code, BANYAN_ERR_MISMATCH) << job.outcome(rank).text;
      EXPECT_TRUE(contains(job.outcome(rank).text, "rank 1 and rank 0 registered other"))
          << job.outcome(rank).text;
      EXPECT_TRUE(contains(job.outcome(rank).text, kWhat[kind])) << job.outcome(rank).text;
    }
  }
}

// None of it fails anything.
TEST_P(FailingReducers, RefuseMisuse) {
  run(2, [](Rank& self) {
    Model model(layers_that_fail());
    const Failing made = make_failing(self, model);
    if (made.reducer == nullptr) return;
    const auto refused = [&](banyan_result_t got, banyan_result_t code, std::string_view part) {
      self.expect_code(got, code, part);
      self.expect(contains(last_text(), part), last_text());
    };
    constexpr banyan_result_t kArgument = BANYAN_ERR_INVALID_ARGUMENT;
    constexpr banyan_result_t kUsage = BANYAN_ERR_INVALID_USAGE;
    refused(banyan_reducer_ready(made.reducer, 99, model.gradient(0)), kArgument,
            "tensor 99 is not registered");
    refused(banyan_reducer_ready(made.reducer, 1, nullptr), kArgument,
            "gradient of tensor 1 ('layer1') is NULL");
    refused(banyan_reducer_wait(made.reducer, 99), kArgument, "tensor 99 is not registered");
    refused(banyan_reducer_wait(nullptr, 1), kArgument, "reducer is NULL");
    banyan_tensor_stats_t stats{};
    refused(banyan_reducer_stats(made.reducer, 1, &stats), kArgument, "stats.size is 0");
    refused(banyan_reducer_stats(made.reducer, 1, nullptr), kArgument, "stats is NULL");
    stats.size = sizeof stats;
    refused(banyan_reducer_stats(made.reducer, 99, &stats), kArgument,
            "tensor 99 is not registered");
    refused(banyan_comm_finalize(made.comm), kUsage, "destroy them first");
    self.expect_ok(banyan_reducer_ready(made.reducer, 1, model.gradient(0)), "ready");
    refused(banyan_reducer_ready(made.reducer, 1, model.gradient(0)), kUsage,
            "tensor 1 ('layer1') is ready already");
    refused(banyan_reducer_destroy(made.reducer), kUsage, "tensor 1 ('layer1') is on its way");
    for (size_t t = 1; t < model.size(); ++t)
      self.expect_ok(banyan_reducer_ready(made.reducer, model.id(t), model.gradient(t)), "ready");
    self.expect_ok(banyan_reducer_wait(made.reducer, BANYAN_ALL_TENSORS), "wait");
    self.expect_ok(banyan_reducer_destroy(made.reducer), "destroy");
    refused(banyan_reducer_wait(made.reducer, 1), kArgument, "reducer is destroyed");
    refused(banyan_reducer_destroy(made.reducer), kArgument, "reducer is destroyed");
    self.expect_ok(banyan_reducer_destroy(nullptr), "destroy of nothing");
    self.leave(made.comm);
  });
}

// Local: no rank has begun to meet the others.
TEST_P(FailingReducers, AreNotMadeOfWrongArguments) {
  run(2, [](Rank& self) {
    const banyan_comm_t comm = join_with(self, "int8");
    if (comm == nullptr) return;
    const auto refused =
        [&](const std::function<void(banyan_tensor_t*, banyan_reducer_config_t&)>& change,
            std::string_view part) {
          const Model model(layers_that_fail());
          std::vector<banyan_tensor_t> tensors(model.tensors().begin(), model.tensors().end());
          banyan_reducer_config_t config = reducer_config();
          change(tensors.data(), config);
          banyan_reducer_t reducer = nullptr;
          self.expect_code(
              banyan_reducer_create(comm, tensors.data(), tensors.size(), &config, &reducer),
              BANYAN_ERR_INVALID_ARGUMENT, part);
          self.expect(contains(last_text(), part), last_text());
        };
    const banyan_compression_t topk = codec_named("topk:0.1");
    refused([](auto* t, auto&) { t[1].id = 1; }, "tensors[1].id is 1, which another");
    refused([](auto* t, auto&) { t[1].id = BANYAN_ALL_TENSORS; }, "tensors[1].id is BANYAN_ALL");
    refused([](auto* t, auto&) { t[2].datatype = BANYAN_INT32; }, "tensors[2].datatype is int32");
    refused([](auto* t, auto&) { t[2].dimensions = -1; }, "tensors[2].dimensions is -1");
    refused([](auto* t, auto&) { t[3].size = 8; }, "tensors[3].size is 8");
    refused([](auto*, auto& c) { c.op = BANYAN_MAX; }, "config.op is");
    refused([](auto*, auto& c) { c.error_feedback = 2; }, "config.error_feedback is 2");
    refused([](auto*, auto& c) { c.momentum = 1; }, "config.momentum is 1");
    refused([](auto*, auto& c) { c.clip_norm = -1; }, "config.clip_norm is -1");
    refused([](auto*, auto& c) { c.rules = "a=int9"; }, "rules, character");
    refused([&](auto* t, auto&) { t[3].compression = &topk; }, "layer4");
    refused([](auto*, auto& c) { c.rules = "layer3=topk:0.1"; }, "layer3");
    self.verify(comm, 100, 1);
    self.leave(comm);
  });
}

INSTANTIATE_TEST_SUITE_P(All, FailingReducers, both_kinds(), testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::reducer_failures_test
