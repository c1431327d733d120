// Training is a loop over epochs and steps. Every rank makes the same number of steps: samples that
// do not fill a step of all ranks are left out of that epoch.
// SPDX-License-Identifier: Apache-2.0

#include "examples/train_mnist/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "examples/train_mnist/progress.h"

namespace banyan::example {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The samples of one rank: every size-th, from its rank on.
std::vector<int> shard_of(int count, const Communicator& communicator) {
  std::vector<int> indices;
  for (int i = communicator.rank(); i < count; i += communicator.size()) indices.push_back(i);
  return indices;
}

void shuffle(std::vector<int>& indices, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (size_t i = indices.size(); i > 1; --i) std::swap(indices[i - 1], indices[random() % i]);
}

void take_samples(const Dataset& dataset, std::span<const int> indices, Batch& batch) {
  const auto pixels = static_cast<size_t>(dataset.pixels);
  batch.inputs.resize(indices.size() * pixels);
  batch.labels.resize(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    const auto index = static_cast<size_t>(indices[i]);
    const uint8_t* image = &dataset.images[index * pixels];
    std::transform(image, image + pixels, &batch.inputs[i * pixels],
                   [](uint8_t pixel) { return static_cast<float>(pixel) / 255.0F; });
    batch.labels[i] = dataset.labels[index];
  }
}

class Trainer {
 public:
  Trainer(Communicator& communicator, const Dataset& training, const Dataset& test,
          const TrainOptions& options)
      : communicator_(communicator),
        training_(training),
        test_(test),
        options_(options),
        shape_{training.pixels, options.hidden, kClasses},
        parameters_(initial_parameters(shape_, options.seed)),
        gradient_(parameters_.size()),
        velocity_(parameters_.size()),
        steps_per_epoch_(samples() / (options.batch * communicator.size())) {
    report_.gradient_bytes = gradient_.size() * sizeof(float);
  }

  Result<TrainReport> run() {
    if (steps_per_epoch_ == 0) {
      return Status(Code::kInvalidArgument,
                    fmt::format("{} samples do not fill one step of {} ranks with {} each",
                                samples(), communicator_.size(), options_.batch));
    }
    BANYAN_TRY(communicator_.broadcast(parameters_, 0));
    if (leads()) fmt::print("epoch  learning rate    loss  test accuracy  seconds\n");
    for (int epoch = 0; epoch < options_.epochs; ++epoch) {
      const auto start = Clock::now();
      auto loss = train_epoch(epoch);
      if (!loss.ok()) return loss.status();
      const double seconds = seconds_since(start);
      report_.seconds += seconds;
      BANYAN_TRY(measure_accuracy());
      if (leads()) {
        fmt::print("{:5}  {:13.5f}  {:6.4f}  {:11.2f} %  {:7.1f}\n", epoch + 1, last_rate_, *loss,
                   100 * report_.accuracy, seconds);
        std::fflush(stdout);
      }
    }
    BANYAN_TRY(compare_parameters());
    return report_;
  }

 private:
  int samples() const { return samples_used(training_, options_); }
  bool leads() const { return communicator_.rank() == 0; }

  // The rate scales linearly: as many ranks, as many times the rate of one. Starting with that
  // would diverge, so it is reached in equal parts over the first epoch (Goyal et al., 2017). From
  // there it falls in equal parts to zero, so that the last steps settle.
  double learning_rate() const {
    const double done = static_cast<double>(report_.steps) / steps_per_epoch_;  // epochs
    const double ranks = communicator_.size();
    const double warm = 1 + (ranks - 1) * std::min(1.0, done);
    const double left = std::min(1.0, (options_.epochs - done) / std::max(1, options_.epochs - 1));
    return options_.learning_rate * warm * left;
  }

  // The mean loss over the samples of all ranks.
  Result<double> train_epoch(int epoch) {
    std::vector<int> indices = shard_of(samples(), communicator_);
    const auto seeds_before =
        static_cast<uint64_t>(epoch) * static_cast<uint64_t>(communicator_.size());
    shuffle(indices,
            options_.seed + 1 + seeds_before + static_cast<uint64_t>(communicator_.rank()));
    const auto size = static_cast<size_t>(options_.batch);
    Progress progress(leads(), fmt::format("epoch {}/{}", epoch + 1, options_.epochs),
                      steps_per_epoch_);
    double loss[1] = {0};
    for (int step = 0; step < steps_per_epoch_; ++step) {
      take_samples(training_, std::span(indices).subspan(static_cast<size_t>(step) * size, size),
                   batch_);
      loss[0] += compute_gradient(shape_, parameters_, batch_, activations_, gradient_);
      const auto start = Clock::now();
      BANYAN_TRY(communicator_.allreduce(gradient_, ReduceOp::kAvg));
      report_.communication_seconds += seconds_since(start);
      descend();
      progress.show(step + 1);
    }
    BANYAN_TRY(communicator_.allreduce(std::span(loss), ReduceOp::kAvg));
    return loss[0] / steps_per_epoch_;
  }

  void descend() {
    last_rate_ = learning_rate();
    const auto rate = static_cast<float>(last_rate_);
    const auto momentum = static_cast<float>(options_.momentum);
    for (size_t i = 0; i < parameters_.size(); ++i) {
      velocity_[i] = momentum * velocity_[i] + gradient_[i];
      parameters_[i] -= rate * velocity_[i];
    }
    ++report_.steps;
  }

  // Every rank tests its share of the test data.
  Status measure_accuracy() {
    const std::vector<int> indices = shard_of(test_.count, communicator_);
    constexpr size_t kAtOnce = 100;
    int64_t correct[1] = {0};
    for (size_t at = 0; at < indices.size(); at += kAtOnce) {
      const size_t count = std::min(kAtOnce, indices.size() - at);
      take_samples(test_, std::span(indices).subspan(at, count), batch_);
      predict(shape_, parameters_, batch_, activations_);
      correct[0] += count_correct(shape_, batch_, activations_);
    }
    BANYAN_TRY(communicator_.allreduce(std::span(correct), ReduceOp::kSum));
    report_.accuracy = static_cast<double>(correct[0]) / test_.count;
    return {};
  }

  // Bit for bit with rank 0's.
  Status compare_parameters() {
    // Others begin with what no parameters are, which a broadcast that does nothing would leave.
    std::vector<float> first(parameters_.size(), std::numeric_limits<float>::quiet_NaN());
    if (leads()) first = parameters_;
    BANYAN_TRY(communicator_.broadcast(first, 0));
    const int32_t mine[1] = {
        std::memcmp(first.data(), parameters_.data(), first.size() * sizeof(float)) == 0 ? 1 : 0};
    std::vector<int32_t> all(static_cast<size_t>(communicator_.size()));
    BANYAN_TRY(communicator_.allgather(std::span(mine), all));
    report_.identical = std::all_of(all.begin(), all.end(), [](int32_t same) { return same == 1; });
    for (size_t rank = 0; rank < all.size() && leads(); ++rank) {
      if (all[rank] != 1) fmt::print(stderr, "rank {} has other parameters than rank 0\n", rank);
    }
    return {};
  }

  Communicator& communicator_;
  const Dataset& training_;
  const Dataset& test_;
  const TrainOptions options_;
  const Shape shape_;
  std::vector<float> parameters_;
  std::vector<float> gradient_;
  std::vector<float> velocity_;
  const int steps_per_epoch_;
  Batch batch_;
  Activations activations_;
  double last_rate_ = 0;
  TrainReport report_;
};

}  // namespace

int samples_used(const Dataset& training, const TrainOptions& options) {
  return options.limit > 0 ? std::min(options.limit, training.count) : training.count;
}

Result<TrainReport> train(Communicator& communicator, const Dataset& training, const Dataset& test,
                          const TrainOptions& options) {
  if (training.pixels != test.pixels) {
    return Status(Code::kInvalidArgument,
                  fmt::format("training images have {} pixels, test images {}", training.pixels,
                              test.pixels));
  }
  return Trainer(communicator, training, test, options).run();
}

}  // namespace banyan::example
