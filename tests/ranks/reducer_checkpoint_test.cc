// What reducers keep between steps: nothing is lost of what compression drops, over restarts and
// other numbers of ranks; a step with a NaN leaves no trace; blobs that do not fit are refused.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "tests/ranks/ranks_fixture.h"
#include "tests/ranks/ranks_values.h"
#include "tests/ranks/reducer_model.h"
#include "tests/support/effort.h"

namespace banyan::test::reducer_checkpoint_test {
namespace {

using Blob = std::vector<std::byte>;

// What they keep of multiples of 1/256 are such multiples, which sums keep.
constexpr const char* kExactOnes[] = {"threshold:1",   "threshold:1:fp16",         "topk:0.1",
                                      "topk:0.1:fp16", "topk:0.1:resel",           "randk:0.25",
                                      "sign:0.5",      "inter=int8,intra=topk:0.1"};
constexpr const char* kRoundedOnes[] = {"int8", "int8+sr", "int4",   "dyn8",
                                        "fp8",  "e5m2+sr", "onebit", "bf16"};

constexpr uint64_t kSteps = 6;

// Each step and each rank rounds by half a unit in the last place of values up to 64.
double tolerance_of(bool exact, int size) {
  return exact ? 0 : static_cast<double>(kSteps) * (size + 2) * 32 * 0x1p-23;
}

std::vector<Layer> layers_to_keep() {
  return {{.id = 900, .count = 5000},
          {.id = 17, .count = 6234, .type = BANYAN_FLOAT32},
          {.id = 8, .count = 300, .dimensions = 1},
          {.id = 40, .count = 9001}};
}

class KeptByReducers : public WithRanks {};

bool run_steps(Rank& self, banyan_reducer_t reducer, Model& model, uint64_t begin, uint64_t end,
               Account* account = nullptr, double weight = 1) {
  for (uint64_t step = begin; step < end; ++step) {
    model.fill(step, self.rank());
    if (!reduce(self, reducer, model, step)) return false;
    self.agree(model.digest(), "sums");
    if (account != nullptr) account->take_out(model, weight);
  }
  return true;
}

void expect_all_kept(Rank& self, const char* codec, bool exact) {
  const banyan_comm_t comm = join_with(self, codec);
  if (comm == nullptr) return;
  self.where(codec);
  Model model(layers_to_keep());
  const banyan_reducer_t reducer = make_reducer(self, comm, model, reducer_config());
  if (reducer == nullptr) return;
  Account account(model);
  if (!run_steps(self, reducer, model, 0, kSteps, &account)) return;
  for (uint64_t step = 0; step < kSteps; ++step) account.put_in(model, step, self.size());
  add_all_left(self, comm, save(self, reducer), account);
  const double difference = account.largest_difference();
  self.expect(difference <= tolerance_of(exact, self.size()),
              fmt::format("{}: {} is missing", codec, difference));
  self.expect(self.size() == 1 || account.left() > 0,
              fmt::format("{}: nothing is left, so nothing was compressed", codec));
  self.expect_ok(banyan_reducer_destroy(reducer), "destroy");
  self.leave(comm);
}

TEST_P(KeptByReducers, IsAllThatSumsLack) {
  for (const int size : is_brief() ? std::vector{3} : std::vector{1, 2, 3, 5}) {
    for (const char* codec : kExactOnes)
      run(size, [&](Rank& self) { expect_all_kept(self, codec, true); });
    for (const char* codec : kRoundedOnes)
      run(size, [&](Rank& self) { expect_all_kept(self, codec, false); });
  }
}

// What is left of means, too.
TEST_P(KeptByReducers, IsInUnitsOfTheSum) {
  run(4, [](Rank& self) {
    const banyan_comm_t comm = join_with(self, "threshold:1");
    if (comm == nullptr) return;
    Model model(std::vector<Layer>{{.id = 1, .count = 5000}, {.id = 2, .count = 6000}});
    const banyan_reducer_t reducer = make_reducer(self, comm, model, reducer_config(BANYAN_AVG));
    if (reducer == nullptr) return;
    Account account(model);
    run_steps(self, reducer, model, 0, kSteps, &account, 4);
    for (uint64_t step = 0; step < kSteps; ++step) account.put_in(model, step, 4);
    add_all_left(self, comm, save(self, reducer), account);
    self.expect(account.largest_difference() == 0,
                fmt::format("{} is missing", account.largest_difference()));
    self.expect_ok(banyan_reducer_destroy(reducer), "destroy");
    self.leave(comm);
  });
}

// With a checkpoint and another reducer after each step, and without.
TEST_P(KeptByReducers, OutlivesRestarts) {
  struct Plan {
    const char* codec;
    double momentum;
  };
  const uint64_t restarts = is_brief() ? 5 : 20;
  for (const Plan plan : {Plan{"threshold:1", 0}, Plan{"topk:0.1", 0.5}, Plan{"int8+sr", 0},
                          Plan{"randk:0.1", 0.9}, Plan{"onebit", 0}})
    run(2, [&](Rank& self) {
      const banyan_comm_t comm = join_with(self, plan.codec);
      if (comm == nullptr) return;
      banyan_reducer_config_t config = reducer_config();
      config.momentum = plan.momentum;
      Model whole(layers_to_keep()), cut(layers_to_keep());
      const banyan_reducer_t through = make_reducer(self, comm, whole, config);
      Blob blob;
      for (uint64_t step = 0; step < restarts; ++step) {
        self.where(fmt::format("{}, step {}", plan.codec, step));
        const banyan_reducer_t again = make_reducer(self, comm, cut, config);
        if (through == nullptr || again == nullptr) return;
        if (step > 0 && !load(self, again, {&blob, 1})) return;
        whole.fill(step, self.rank());
        cut.fill(step, self.rank());
        if (!reduce(self, through, whole, step) || !reduce(self, again, cut, step + 1)) return;
        if (!self.expect(whole.digest() == cut.digest(), "a restart shows in the bits")) return;
        blob = save(self, again);
        self.expect(blob == save(self, through), "a restart shows in the blob");
        self.expect_ok(banyan_reducer_destroy(again), "destroy");
      }
      self.expect_ok(banyan_reducer_destroy(through), "destroy");
      self.leave(comm);
    });
}

// A reducer takes over those of the former ranks r, r + P and so on, goes on for some steps, and
// saves.
Blob continued(Rank& self, banyan_comm_t comm, std::span<const Blob> former, uint64_t first,
               Account& account) {
  Model model(layers_to_keep());
  const banyan_reducer_t reducer = make_reducer(self, comm, model, reducer_config());
  if (reducer == nullptr) return {};
  int rank = 0, size = 0;
  self.expect_ok(banyan_comm_rank(comm, &rank), "rank");
  self.expect_ok(banyan_comm_size(comm, &size), "size");
  std::vector<Blob> mine;
  for (auto r = static_cast<size_t>(rank); r < former.size(); r += static_cast<size_t>(size))
    mine.push_back(former[r]);
  if (!mine.empty()) load(self, reducer, mine);
  for (uint64_t step = first; step < first + 3; ++step) {
    model.fill(step, rank);
    if (!reduce(self, reducer, model, step)) break;
    account.take_out(model);
    account.put_in(model, step, size);
  }
  self.expect(stats_of(self, reducer).steps == 3, "steps since it was made");
  Blob blob = save(self, reducer);
  self.expect_ok(banyan_reducer_destroy(reducer), "destroy");
  return blob;
}

TEST_P(KeptByReducers, GoesToAnotherNumberOfRanks) {
  for (const char* codec : kExactOnes)
    run(4, [&](Rank& self) {
      const banyan_comm_t comm = join_with(self, codec);
      if (comm == nullptr) return;
      self.where(codec);
      Account account(Model{layers_to_keep()});
      banyan_comm_t pair = nullptr;
      const banyan_compression_t compression = codec_named(codec, 7);
      banyan_config_t config = BANYAN_CONFIG_INIT;
      config.compression = &compression;
      if (!self.expect_ok(banyan_comm_split(comm, self.rank() / 2, 0, &pair, &config), "split"))
        return;
      // Both pairs do the same.
      const Blob of_four = continued(self, comm, {}, 0, account);
      const Blob of_two = continued(self, pair, all_blobs(self, comm, of_four), 3, account);
      const std::vector<Blob> two = all_blobs(self, pair, of_two);
      const Blob again = continued(self, comm, two, 6, account);
      const Result<Checkpoint> read = parse_checkpoint(again);
      self.expect(read.ok() && read->steps == 9 && read->ranks == 4, "what a blob says of itself");
      add_all_left(self, comm, again, account);
      self.expect(account.largest_difference() == 0,
                  fmt::format("{}: {} is missing", codec, account.largest_difference()));
      self.leave(pair);
      self.leave(comm);
    });
}

// Without the number of steps, and the check sum.
Blob without_steps(Blob blob) {
  std::fill_n(blob.begin() + 16, 8, std::byte{0});
  std::fill_n(blob.begin() + 44, 4, std::byte{0});
  return blob;
}

// In any tensor of any rank. The sums have it, and what is kept is as if the step had not been.
void skip_step(Rank& self, const char* codec, double special, size_t tensor, int victim) {
  const banyan_comm_t comm = join_with(self, codec);
  if (comm == nullptr) return;
  self.where(fmt::format("{}, {} in tensor {} of rank {}", codec, special, tensor, victim));
  Model model(layers_to_keep());
  banyan_reducer_config_t config = reducer_config(BANYAN_AVG);
  config.momentum = 0.5;
  config.clip_norm = 100;
  const banyan_reducer_t reducer = make_reducer(self, comm, model, config);
  if (reducer == nullptr || !run_steps(self, reducer, model, 0, 3)) return;
  const Blob before = without_steps(save(self, reducer));
  model.fill(3, self.rank());
  const size_t at = model.count(tensor) - 7;
  if (self.rank() == victim) model.set(tensor, at, special);
  if (!reduce(self, reducer, model, 1)) return;
  self.agree(model.digest(), "sums");
  self.expect(!std::isfinite(model.at(tensor, at)), "it is lost on its way");
  self.expect(without_steps(save(self, reducer)) == before, "what is kept has changed");
  self.expect(state_of(self, reducer).steps == 4, "it counts as a step");
  const bool exact = tensor == 2;
  const banyan_tensor_stats_t stats = stats_of(self, reducer, model.id(tensor));
  self.expect(stats.nonfinite == (exact || self.rank() == victim ? 1 : 0),
              fmt::format("{} elements are not finite", stats.nonfinite));
  self.expect(std::isfinite(stats.error_nmse) && std::isfinite(stats.residual_norm), "figures");
  run_steps(self, reducer, model, 4, 5);
  self.expect(std::isfinite(model.at(tensor, at)), "it comes back");
  self.expect(without_steps(save(self, reducer)) != before, "a finite step is kept");
  self.expect_ok(banyan_reducer_destroy(reducer), "destroy");
  self.leave(comm);
}

TEST_P(KeptByReducers, IsAsItWasAfterAStepThatIsNotFinite) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  int turn = 0;
  for (const char* codec : {"threshold:1", "topk:0.1", "topk:0.1:resel", "randk:0.1", "sign:0.5",
                            "int8", "int4+sr", "onebit", "dyn8", "fp16"})
    for (const size_t tensor : {0, 1, 2, 3}) {
      const double special = turn % 3 == 0 ? std::nan("") : turn % 3 == 1 ? kInfinity : -kInfinity;
      const int victim = ++turn % 2;
      if (is_brief() && turn % 5 != 0) continue;  // the others take as many minutes
      run(2, [&](Rank& self) { skip_step(self, codec, special, tensor, victim); });
    }
}

void expect_refused(Rank& self, banyan_reducer_t reducer, std::span<const Blob> blobs,
                    banyan_result_t code, std::string_view text) {
  std::vector<const void*> starts;
  std::vector<size_t> sizes;
  for (const Blob& blob : blobs) {
    starts.push_back(blob.data());
    sizes.push_back(blob.size());
  }
  self.expect_code(banyan_reducer_load(reducer, starts.data(), sizes.data(), blobs.size()), code,
                   fmt::format("load, expected: {}", text));
  self.expect(last_text().find(text) != std::string_view::npos, last_text());
}

TEST_P(KeptByReducers, IsNotTakenFromTheWrongBlobs) {
  run(2, [](Rank& self) {
    const banyan_comm_t comm = join_with(self, "threshold:1");
    if (comm == nullptr) return;
    Model model(layers_to_keep()), other(std::vector<Layer>{{.id = 900, .count = 5000}});
    const banyan_reducer_t old = make_reducer(self, comm, model, reducer_config());
    const banyan_reducer_t foreign = make_reducer(self, comm, other, reducer_config());
    if (old == nullptr || foreign == nullptr || !run_steps(self, old, model, 0, 1)) return;
    const Blob first = save(self, old);
    if (!run_steps(self, old, model, 1, 2)) return;
    const std::vector<Blob> second = all_blobs(self, comm, save(self, old));
    const banyan_reducer_t fresh = make_reducer(self, comm, model, reducer_config());
    if (fresh == nullptr) return;
    const auto& mine = second[static_cast<size_t>(self.rank())];
    expect_refused(self, fresh, std::vector<Blob>{mine, mine}, BANYAN_ERR_INVALID_ARGUMENT,
                   fmt::format("two blobs are of rank {}", self.rank()));
    expect_refused(self, fresh, std::vector<Blob>{first, second[0]}, BANYAN_ERR_INVALID_ARGUMENT,
                   "the blobs are not of one checkpoint");
    expect_refused(self, fresh, std::vector<Blob>{save(self, foreign)}, BANYAN_ERR_INVALID_ARGUMENT,
                   "17");
    expect_refused(self, fresh, std::vector<Blob>{Blob(mine.begin(), mine.end() - 1)},
                   BANYAN_ERR_CORRUPT, "says that it has");
    Blob altered = mine;
    altered[altered.size() / 2] ^= std::byte{1};
    expect_refused(self, fresh, std::vector<Blob>{altered}, BANYAN_ERR_CORRUPT, "altered");
    self.expect_code(banyan_reducer_load(fresh, nullptr, nullptr, 1), BANYAN_ERR_INVALID_ARGUMENT,
                     "blobs is NULL");
    self.expect_ok(banyan_reducer_load(fresh, nullptr, nullptr, 0), "nothing to take over");
    if (!load(self, fresh, {&mine, 1})) return;
    expect_refused(self, fresh, {&mine, 1}, BANYAN_ERR_INVALID_USAGE, "loaded already");
    self.expect(save(self, fresh) == mine, "what was loaded is saved again");
    // They go on alike.
    Model same(layers_to_keep());
    run_steps(self, old, model, 2, 3);
    run_steps(self, fresh, same, 2, 3);
    self.expect(model.digest() == same.digest(), "other bits after blobs that were refused");
    expect_refused(self, fresh, {&mine, 1}, BANYAN_ERR_INVALID_USAGE, "before the first step");
    for (const banyan_reducer_t each : {old, foreign, fresh})
      self.expect_ok(banyan_reducer_destroy(each), "destroy");
    self.leave(comm);
  });
}

TEST_P(KeptByReducers, IsSavedBetweenSteps) {
  run(2, [](Rank& self) {
    const banyan_comm_t comm = join_with(self, "int8");
    if (comm == nullptr) return;
    Model model(layers_to_keep());
    const banyan_reducer_t reducer = make_reducer(self, comm, model, reducer_config());
    if (reducer == nullptr || !run_steps(self, reducer, model, 0, 2)) return;
    const Blob blob = save(self, reducer);
    Blob room(blob.size());
    size_t bytes = room.size() - 1;
    self.expect_code(banyan_reducer_save(reducer, room.data(), &bytes), BANYAN_ERR_INVALID_ARGUMENT,
                     "too little room");
    self.expect(bytes == blob.size() && room == Blob(blob.size()),
                "nothing is written, but how much");
    self.expect(last_text().find(fmt::format("{}", blob.size())) != std::string_view::npos,
                last_text());
    self.expect_code(banyan_reducer_save(reducer, room.data(), nullptr),
                     BANYAN_ERR_INVALID_ARGUMENT, "bytes is NULL");
    self.expect_ok(banyan_reducer_ready(reducer, model.id(0), model.gradient(0)), "ready");
    bytes = room.size();
    self.expect_code(banyan_reducer_save(reducer, room.data(), &bytes), BANYAN_ERR_INVALID_USAGE,
                     "save in a step");
    self.expect(last_text().find("tensor 900 ('layer900') is on its way") != std::string_view::npos,
                last_text());
    for (size_t t = 1; t < model.size(); ++t)
      self.expect_ok(banyan_reducer_ready(reducer, model.id(t), model.gradient(t)), "ready");
    self.expect_ok(banyan_reducer_wait(reducer, BANYAN_ALL_TENSORS), "wait");
    self.expect(save(self, reducer) != blob, "the step is saved");
    self.expect_ok(banyan_reducer_destroy(reducer), "destroy");
    self.leave(comm);
  });
}

INSTANTIATE_TEST_SUITE_P(All, KeptByReducers, both_kinds(), testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::reducer_checkpoint_test
