// Training is a loop over epochs and steps. Every rank makes the same number of steps: samples that
// do not fill a step of all ranks are left out of that epoch.
// SPDX-License-Identifier: Apache-2.0

#include "examples/train_mnist/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "examples/train_mnist/checkpoint.h"
#include "examples/train_mnist/checksum.h"
#include "examples/train_mnist/progress.h"
#include "examples/train_mnist/samples.h"

namespace banyan::example {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Trainer {
 public:
  Trainer(Communicator& communicator, Reducer reducer, const Dataset& training, const Dataset& test,
          const TrainOptions& options, const Shape& shape)
      : communicator_(communicator),
        reducer_(std::move(reducer)),
        training_(training),
        test_(test),
        options_(options),
        shape_(shape),
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
    BANYAN_TRY(begin());
    if (leads())
      fmt::print("epoch  learning rate    loss  test accuracy      bytes sent  seconds\n");
    const int last =
        options_.stop_after > 0 ? std::min(options_.stop_after, options_.epochs) : options_.epochs;
    for (; epoch_ < last;) {
      const auto start = Clock::now();
      auto loss = train_epoch();
      if (!loss.ok()) return loss.status();
      const double seconds = seconds_since(start);
      report_.seconds += seconds;
      ++epoch_;
      BANYAN_TRY(measure_accuracy());
      BANYAN_TRY(count_bytes());
      if (!options_.checkpoint.empty()) BANYAN_TRY(save());
      if (leads()) {
        fmt::print("{:5}  {:13.5f}  {:6.4f}  {:11.2f} %  {:14}  {:7.1f}\n", epoch_, last_rate_,
                   *loss, 100 * report_.accuracy, report_.bytes_sent, seconds);
        std::fflush(stdout);
      }
    }
    report_.waited_seconds = median(waits_);
    BANYAN_TRY(compare_parameters());
    return report_;
  }

  // A gradient of this rank's, as computed with the parameters as they are.
  std::span<const float> fresh_gradient() {
    const std::vector<int> indices =
        shard_of(samples(), communicator_.rank(), communicator_.size());
    take_samples(training_, std::span(indices).first(static_cast<size_t>(options_.batch)), batch_);
    compute_gradient(shape_, parameters_, batch_, activations_, gradient_);
    return gradient_;
  }

 private:
  int samples() const { return samples_used(training_, options_); }
  bool leads() const { return communicator_.rank() == 0; }
  int last_epoch() const {
    const int planned = options_.epochs;
    return options_.stop_after > 0 ? std::min(options_.stop_after, planned) : planned;
  }

  // All ranks have the same parameters and velocity, and each the reducer's part of some former
  // ranks.
  Status begin() {
    if (options_.resume.empty()) return communicator_.broadcast(parameters_, 0);
    auto found = inherit(options_.resume, shape_, communicator_.rank(), communicator_.size());
    if (!found.ok()) return found.status();
    if (!found->reducers.empty()) BANYAN_TRY(reducer_.load(found->reducers));
    parameters_ = std::move(found->checkpoint.parameters);
    velocity_ = std::move(found->checkpoint.velocity);
    epoch_ = found->checkpoint.epochs;
    if (epoch_ >= last_epoch())
      return {Code::kInvalidArgument,
              fmt::format("{}: it is of the end of epoch {}, and this job ends after epoch {}",
                          checkpoint_path(options_.resume, 0), epoch_, last_epoch())};
    if (leads()) {
      fmt::print("goes on after epoch {} of {} ranks\n", epoch_, found->checkpoint.ranks);
    }
    return {};
  }

  // A rank's file is whole at any time. Files of a job that dies between two replacements are of
  // two epochs, and are refused later.
  Status save() {
    auto kept = reducer_.save();
    if (!kept.ok()) return kept.status();
    const std::string path = checkpoint_path(options_.checkpoint, communicator_.rank());
    const std::string fresh = path + ".new";
    BANYAN_TRY(write_checkpoint(fresh, {shape_, communicator_.size(), communicator_.rank(), epoch_,
                                        parameters_, velocity_, std::move(*kept)}));
    BANYAN_TRY(communicator_.barrier());
    return replace_file(path, fresh);
  }

  // The rate scales linearly: as many ranks, as many times the rate of one. Starting with that
  // would diverge, so it is reached in equal parts over the first epoch (Goyal et al., 2017). From
  // there it falls in equal parts to zero, so that the last steps settle.
  double learning_rate(int step) const {
    const double done = epoch_ + static_cast<double>(step) / steps_per_epoch_;  // epochs
    const double ranks = communicator_.size();
    const double warm = 1 + (ranks - 1) * std::min(1.0, done);
    const double left = std::min(1.0, (options_.epochs - done) / std::max(1, options_.epochs - 1));
    return options_.learning_rate * warm * left;
  }

  // The mean loss over the samples of all ranks. The next samples are fetched while the gradients
  // of these travel.
  Result<double> train_epoch() {
    std::vector<int> indices = shard_of(samples(), communicator_.rank(), communicator_.size());
    const auto seeds_before =
        static_cast<uint64_t>(epoch_) * static_cast<uint64_t>(communicator_.size());
    shuffle(indices,
            options_.seed + 1 + seeds_before + static_cast<uint64_t>(communicator_.rank()));
    const auto size = static_cast<size_t>(options_.batch);
    Progress progress(leads(), fmt::format("epoch {}/{}", epoch_ + 1, options_.epochs),
                      steps_per_epoch_);
    double loss[1] = {0};
    std::vector<double> waits(static_cast<size_t>(steps_per_epoch_));
    take_samples(training_, std::span(indices).first(size), batch_);
    for (int step = 0; step < steps_per_epoch_; ++step) {
      loss[0] += output_gradient(shape_, parameters_, batch_, activations_, gradient_);
      BANYAN_TRY(ready(reducer_, shape_, kFirstOfOutput, kTensors, gradient_));
      hidden_gradient(shape_, parameters_, batch_, activations_, gradient_);
      BANYAN_TRY(ready(reducer_, shape_, 0, kFirstOfOutput, gradient_));
      const auto next = static_cast<size_t>(step + 1) * size;
      if (step + 1 < steps_per_epoch_)
        take_samples(training_, std::span(indices).subspan(next, size), batch_);
      BANYAN_TRY(descend(learning_rate(step), waits[static_cast<size_t>(step)]));
      progress.show(step + 1);
    }
    report_.steps += steps_per_epoch_;
    BANYAN_TRY(communicator_.allreduce(waits, ReduceOp::kMin));
    waits_.insert(waits_.end(), waits.begin(), waits.end());
    BANYAN_TRY(communicator_.allreduce(std::span(loss), ReduceOp::kAvg));
    return loss[0] / steps_per_epoch_;
  }

  // Tensor by tensor, in the order in which they became ready, as soon as each is there. Adds the
  // time in which there was none to `waited`.
  Status descend(double rate, double& waited) {
    last_rate_ = rate;
    const auto tensors = shape_.tensors();
    for (size_t tensor = kTensors; tensor-- > 0;) {
      const auto start = Clock::now();
      BANYAN_TRY(reducer_.wait(tensor));
      waited += seconds_since(start);
      descend(tensors[tensor], static_cast<float>(rate));
    }
    return {};
  }

  // Where the reducer corrects the momentum, what it returns has momentum already.
  void descend(const Tensor& tensor, float rate) {
    const bool corrected = options_.reducer.momentum > 0 && may_compress(tensor);
    const auto momentum = static_cast<float>(corrected ? 0 : options_.momentum);
    for (size_t i = tensor.begin; i < tensor.begin + tensor.count; ++i) {
      velocity_[i] = momentum * velocity_[i] + gradient_[i];
      parameters_[i] -= rate * velocity_[i];
    }
  }

  // Every rank tests its share of the test data.
  Status measure_accuracy() {
    const std::vector<int> indices =
        shard_of(test_.count, communicator_.rank(), communicator_.size());
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

  Status count_bytes() {
    auto stats = reducer_.stats();
    if (!stats.ok()) return stats.status();
    int64_t sent[1] = {static_cast<int64_t>(stats->bytes_sent)};
    BANYAN_TRY(communicator_.allreduce(std::span(sent), ReduceOp::kSum));
    report_.bytes_sent = sent[0];
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
    report_.checksum = checksum_of(std::as_bytes(std::span(first)));
    for (size_t rank = 0; rank < all.size() && leads(); ++rank) {
      if (all[rank] != 1) fmt::print(stderr, "rank {} has other parameters than rank 0\n", rank);
    }
    return {};
  }

  Communicator& communicator_;
  Reducer reducer_;
  const Dataset& training_;
  const Dataset& test_;
  const TrainOptions options_;
  const Shape shape_;
  std::vector<float> parameters_;
  std::vector<float> gradient_;
  std::vector<float> velocity_;
  const int steps_per_epoch_;
  int epoch_ = 0;  // that are done
  Batch batch_;
  Activations activations_;
  double last_rate_ = 0;
  std::vector<double> waits_;  // of each step, by the rank that waited least
  TrainReport report_;
};

}  // namespace

double TrainReport::hidden() const {
  return alone_seconds > 0 ? std::clamp(1 - waited_seconds / alone_seconds, 0.0, 1.0) : 0;
}

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
  const Shape shape{training.pixels, options.hidden, kClasses};
  Result<Reducer> reducer = make_reducer(communicator, shape, options.reducer);
  if (!reducer.ok()) return reducer.status();
  Trainer trainer(communicator, std::move(*reducer), training, test, options, shape);
  Result<TrainReport> report = trainer.run();
  if (!report.ok()) return report;
  const Result<double> alone =
      seconds_alone(communicator, shape, options.reducer, trainer.fresh_gradient());
  if (!alone.ok()) return alone.status();
  report->alone_seconds = *alone;
  return report;
}

}  // namespace banyan::example
