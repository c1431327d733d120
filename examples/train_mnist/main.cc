// Trains a small network on Fashion-MNIST, data-parallel, with Banyan between the ranks.
//
//   train_mnist -n 4                 four ranks on this machine
//   mpirun -n 4 train_mnist          or torchrun's, Slurm's ... ranks
//
// Exit status: 0 trained, 1 something failed or the ranks' parameters differ, 2 wrong options, 77
// no data.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <string>

#include <CLI/CLI.hpp>

#include "banyan/communicator.h"
#include "examples/train_mnist/idx.h"
#include "examples/train_mnist/local_ranks.h"
#include "examples/train_mnist/train.h"

namespace {

using banyan::example::Dataset;
using banyan::example::TrainReport;

struct Options {
  int ranks = 0;  // 0: from the launcher
  std::string data = "/usr/share/datasets/fashion-mnist";
  double least_accuracy = 0;  // percent
  banyan::example::TrainOptions train;
};

int fail(const banyan::Status& status) {
  fmt::print(stderr, "train_mnist: {}\n", status.message());
  return status.code() == banyan::Code::kUnsupported ? 77 : 1;
}

// Every rank comes to the same exit status.
int judge(const TrainReport& report, const Options& options, bool leads) {
  const bool accurate = 100 * report.accuracy >= options.least_accuracy;
  if (leads) {
    fmt::print(
        "time per step {:.2f} ms, {:.0f} % of it in communication, waiting included; {} bytes "
        "of gradient per rank and step\n",
        1e3 * report.seconds / static_cast<double>(report.steps),
        100 * report.communication_seconds / report.seconds, report.gradient_bytes);
    fmt::print("test accuracy {:.2f} %\n", 100 * report.accuracy);
    fmt::print("parameters {} on all ranks\n", report.identical ? "identical" : "NOT identical");
    if (!accurate) {
      fmt::print(stderr, "train_mnist: expected at least {} %\n", options.least_accuracy);
    }
  }
  return report.identical && accurate ? 0 : 1;
}

int run_rank(banyan::Result<banyan::Communicator> made, const Dataset& training,
             const Dataset& test, const Options& options) {
  if (!made.ok()) return fail(made.status());
  banyan::Communicator& communicator = *made;
  const bool leads = communicator.rank() == 0;
  if (leads) {
    fmt::print("{} images to train on, {} to test; {} ranks with {} images each in a step\n",
               banyan::example::samples_used(training, options.train), test.count,
               communicator.size(), options.train.batch);
  }
  auto report = banyan::example::train(communicator, training, test, options.train);
  if (!report.ok()) return fail(report.status());
  const banyan::Status ended = communicator.finalize();
  if (!ended.ok()) return fail(ended);
  return judge(*report, options, leads);
}

void describe(CLI::App& app, Options& options) {
  auto& train = options.train;
  app.add_option("-n,--ranks", options.ranks,
                 "start this many ranks on this machine (default: the launcher's)")
      ->check(CLI::Range(1, 64));
  app.add_option("-e,--epochs", train.epochs, "passes over the training data")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("-b,--batch", train.batch, "images of one rank in one step")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--learning-rate", train.learning_rate, "of one rank; scaled by their number")
      ->check(CLI::Range(1e-9, 10.0))
      ->capture_default_str();
  app.add_option("--limit", train.limit, "use at most this many training images; 0: all")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  app.add_option("--seed", train.seed, "of weights and order")->capture_default_str();
  app.add_option("--data", options.data, "folder of the IDX files")->capture_default_str();
  app.add_option("--least-accuracy", options.least_accuracy, "percent; exit status 1 below it")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  app.footer("Example: train_mnist -n 4 --epochs 3");
}

int run(const Options& options) {
  auto training = banyan::example::load_dataset(options.data, "train", banyan::example::kClasses);
  if (!training.ok()) return fail(training.status());
  auto test = banyan::example::load_dataset(options.data, "t10k", banyan::example::kClasses);
  if (!test.ok()) return fail(test.status());

  const auto work = [&](banyan::Result<banyan::Communicator> communicator) {
    return run_rank(std::move(communicator), *training, *test, options);
  };
  // Read once, before the fork: the ranks of one machine share these pages.
  if (options.ranks > 0) return banyan::example::run_local_ranks(options.ranks, work);
  return work(banyan::Communicator::from_environment());
}

}  // namespace

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape): without memory it just ends
  CLI::App app("Trains a small network on Fashion-MNIST, data-parallel.", "train_mnist");
  Options options;
  describe(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return run(options);
}
