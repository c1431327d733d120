// SPDX-License-Identifier: Apache-2.0

#include "examples/train_synthetic/measure.h"

#include <algorithm>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "banyan/reducer.h"
#include "examples/train_synthetic/pace.h"

namespace banyan::synthetic {
namespace {

constexpr double kForward = 1.0 / 3;  // of the computation time

// Normally distributed; other ranks have others. They are drawn once, and repeated.
std::vector<float> gradient_of(size_t count, int rank) {
  constexpr size_t kDrawn = 1 << 20;
  std::vector<float> gradient(count);
  std::mt19937_64 random(static_cast<uint64_t>(rank) + 1);
  std::normal_distribution<float> normal;
  const size_t drawn = std::min(count, kDrawn);
  std::generate_n(gradient.begin(), drawn, [&] { return normal(random); });
  for (size_t i = drawn; i < count; ++i) gradient[i] = gradient[i - drawn];
  return gradient;
}

Result<Reducer> make_reducer(Communicator& communicator, const Model& model, size_t bucket_bytes) {
  std::vector<banyan_tensor_t> registered;
  for (const Layer& layer : model) {
    for (const Tensor& tensor : layer.tensors) {
      banyan_tensor_t each{};
      each.size = sizeof each;
      each.id = registered.size();
      each.name = tensor.name.c_str();
      each.count = tensor.count;
      each.dimensions = tensor.dimensions;
      each.datatype = BANYAN_FLOAT32;
      registered.push_back(each);
    }
  }
  banyan_reducer_config_t config = BANYAN_REDUCER_CONFIG_INIT;
  config.bucket_bytes = bucket_bytes;
  return Reducer::create(communicator, registered, &config);
}

// One step more than are timed shows when the last of those ends.
int all_steps(const Options& options) {
  return options.warm_up + options.steps + 1;
}

// The steps of one training, with the gradients in one piece of memory.
class Training {
 public:
  // Without a reducer all are summed at the end of the backward pass.
  Training(Communicator& communicator, Reducer* reducer, const Model& model,
           std::span<float> gradient, const Options& options, double compute)
      : communicator_(communicator),
        reducer_(reducer),
        model_(model),
        gradient_(gradient),
        options_(options),
        seconds_per_work_(compute / work_of(model)),
        pace_(options.spins) {}

  // The times of options.steps steps.
  Result<std::vector<double>> run() {
    std::vector<Pace::Clock::time_point> starts;
    BANYAN_TRY(communicator_.barrier());
    for (int step = 0; step < all_steps(options_); ++step) {
      starts.push_back(Pace::Clock::now());
      if (step > 0) BANYAN_TRY(forward());
      BANYAN_TRY(backward());
    }
    if (reducer_ != nullptr) BANYAN_TRY(reducer_->wait());
    std::vector<double> seconds;
    for (size_t i = static_cast<size_t>(options_.warm_up) + 1; i < starts.size(); ++i)
      seconds.push_back(std::chrono::duration<double>(starts[i] - starts[i - 1]).count());
    BANYAN_TRY(communicator_.allreduce(seconds, ReduceOp::kMax));
    return seconds;
  }

 private:
  void compute(double work) {
    if (seconds_per_work_ > 0) pace_.spend(work * seconds_per_work_);
  }

  Status forward() {
    uint64_t id = 0;
    for (const Layer& layer : model_) {
      for (size_t i = 0; i < layer.tensors.size(); ++i, ++id)
        if (reducer_ != nullptr) BANYAN_TRY(reducer_->wait(id));
      compute(layer.work * kForward);
    }
    return {};
  }

  Status backward() {
    size_t end = gradient_.size();
    uint64_t id = tensors_of(model_);
    for (auto layer = model_.rbegin(); layer != model_.rend(); ++layer) {
      compute(layer->work * (1 - kForward));
      for (auto tensor = layer->tensors.rbegin(); tensor != layer->tensors.rend(); ++tensor) {
        end -= tensor->count;
        --id;
        if (reducer_ != nullptr) BANYAN_TRY(reducer_->ready(id, &gradient_[end]));
      }
    }
    return reducer_ != nullptr ? Status() : communicator_.allreduce(gradient_, ReduceOp::kAvg);
  }

  Communicator& communicator_;
  Reducer* reducer_;
  const Model& model_;
  const std::span<float> gradient_;
  const Options& options_;
  const double seconds_per_work_;
  Pace pace_;
};

StepTimes times_of(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds.front(), seconds.back()};
}

struct Run {
  StepTimes times;
  int64_t bytes = 0;  // that this rank's reducer sent in all steps, also those that are not timed
};

Result<Run> run(Communicator& communicator, const Model& model, std::span<float> gradient,
                const Options& options, double compute) {
  std::optional<Reducer> reducer;
  if (options.way == Way::kReducer) {
    auto made = make_reducer(communicator, model, options.bucket_bytes);
    BANYAN_TRY(made.status());
    reducer.emplace(std::move(*made));
  }
  Training training(communicator, reducer ? &*reducer : nullptr, model, gradient, options, compute);
  auto seconds = training.run();
  BANYAN_TRY(seconds.status());
  Run done{times_of(std::move(*seconds))};
  if (reducer) {
    const auto stats = reducer->stats();
    BANYAN_TRY(stats.status());
    done.bytes = static_cast<int64_t>(stats->bytes_sent);
  }
  return done;
}

}  // namespace

double Report::overlap() const {
  const double shorter = std::min(compute, communication.median);
  if (!(shorter > 0)) return 0;
  return std::clamp((compute + communication.median - step.median) / shorter, 0.0, 1.0);
}

Result<Report> measure(Communicator& communicator, const Model& model, const Options& options) {
  std::vector<float> gradient = gradient_of(parameters_of(model), communicator.rank());
  const auto alone = run(communicator, model, gradient, options, 0);
  BANYAN_TRY(alone.status());
  const auto both = run(communicator, model, gradient, options, options.compute);
  BANYAN_TRY(both.status());
  Report report{options.compute, alone->times, both->times, {}};
  if (options.way == Way::kReducer) {
    int64_t bytes[1] = {both->bytes};
    BANYAN_TRY(communicator.allreduce(std::span(bytes), ReduceOp::kSum));
    report.bytes = static_cast<double>(bytes[0]) / all_steps(options);
  }
  return report;
}

}  // namespace banyan::synthetic
