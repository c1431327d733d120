// Trains a small network on Fashion-MNIST, data-parallel, with Banyan between the ranks.
//
//   train_mnist -n 4                 four ranks on this machine
//   mpirun -n 4 train_mnist          or torchrun's, Slurm's ... ranks
//   train_mnist -n 4 --compress topk:0.01 --momentum-correction
//
// Exit status: 0 trained, 1 something failed or the ranks' parameters differ, 2 wrong options, 77
// no data.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include "banyan/communicator.h"
#include "examples/local_ranks.h"
#include "examples/train_mnist/idx.h"
#include "examples/train_mnist/train.h"

namespace {

using banyan::example::Dataset;
using banyan::example::TrainReport;

struct Options {
  banyan::example::Job job;
  std::string data = "/usr/share/datasets/fashion-mnist";
  double least_accuracy = 0;  // percent
  bool momentum_correction = false;
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
    const auto steps = static_cast<double>(report.steps);
    fmt::print(
        "time per step {:.3f} ms; the rank that came last waited {:.3f} ms of it for sums "
        "(median)\n",
        1e3 * report.seconds / steps, 1e3 * report.waited_seconds);
    fmt::print("communication of a step alone {:.3f} ms, {:.0f} % of it hidden while training\n",
               1e3 * report.alone_seconds, 100 * report.hidden());
    fmt::print("bytes sent per step {:.0f} by all ranks, for {} of gradient on each\n",
               static_cast<double>(report.bytes_sent) / steps, report.gradient_bytes);
    fmt::print("test accuracy {:.2f} %\n", 100 * report.accuracy);
    fmt::print("parameters {} on all ranks, checksum {:016x}\n",
               report.identical ? "identical" : "NOT identical", report.checksum);
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
  app.add_option("-n,--ranks", options.job.ranks,
                 "start this many ranks on this machine (default: the launcher's)")
      ->check(CLI::Range(1, 64));
  app.add_option("-e,--epochs", train.epochs, "passes over the training data")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--stop-after", train.stop_after,
                 "end after this epoch, with the learning rates of all; 0: after the last")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  app.add_option("-b,--batch", train.batch, "images of one rank in one step")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--learning-rate", train.learning_rate, "of one rank; scaled by their number")
      ->check(CLI::Range(1e-9, 10.0))
      ->capture_default_str();
  app.add_option("--hidden", train.hidden, "nodes of the hidden layer")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--limit", train.limit, "use at most this many training images; 0: all")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  app.add_option("--seed", train.seed, "of weights and order")->capture_default_str();
  app.add_option("--data", options.data, "folder of the IDX files")->capture_default_str();
  app.add_option("--least-accuracy", options.least_accuracy, "percent; exit status 1 below it")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  app.footer(
      "Examples: train_mnist -n 4 --epochs 3\n"
      "          train_mnist -n 4 --compress topk:0.01 --momentum-correction");
}

void describe_gradients(CLI::App& app, Options& options) {
  auto& reducer = options.train.reducer;
  app.add_option("--compress", options.job.compress, "as BANYAN_COMPRESS, in place of it");
  app.add_option("--feedback", reducer.feedback,
                 "whether what compression drops is sent later (on)")
      ->type_name("on|off");
  app.add_flag(
      "--momentum-correction", options.momentum_correction,
      "the reducer applies the momentum to what it sends later, and the optimiser's is off "
      "there; for topk, randk, threshold and sign (DGC: Lin et al., 2018)");
  app.add_option("--warmup-steps", reducer.warmup_steps,
                 "steps in which the density of topk and randk falls to its value")
      ->capture_default_str();
  app.add_option("--clip-norm", reducer.clip_norm,
                 "of a compressed gradient, of all ranks together; 0: as it is")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  app.add_option("--checkpoint", options.train.checkpoint,
                 "each rank writes FILE.RANK at the end of each epoch")
      ->type_name("FILE");
  app.add_option("--resume", options.train.resume,
                 "go on with what a job of any number of ranks wrote to FILE.RANK")
      ->type_name("FILE");
}

// A codec that says some values and is silent on others, for all levels alike.
bool is_sparse(std::string_view codec) {
  const std::array<std::string_view, 4> sparse = {"topk", "randk", "threshold", "sign"};
  const std::string_view name = codec.substr(0, codec.find_first_of(":+"));
  return std::find(sparse.begin(), sparse.end(), name) != sparse.end();
}

// Empty, or what is wrong with options that contradict each other.
std::string contradiction_in(const Options& options) {
  if (options.momentum_correction && !is_sparse(options.job.compress))
    return fmt::format(
        "--momentum-correction goes with --compress topk, randk, threshold or sign, not with '{}'",
        options.job.compress);
  return "";
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
  return banyan::example::run_ranks(options.job, work);
}

}  // namespace

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape): without memory it just ends
  CLI::App app("Trains a small network on Fashion-MNIST, data-parallel.", "train_mnist");
  Options options;
  describe(app, options);
  describe_gradients(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (const std::string wrong = contradiction_in(options); !wrong.empty()) {
    fmt::print(stderr, "train_mnist: {}\n", wrong);
    return 2;
  }
  if (options.momentum_correction) options.train.reducer.momentum = options.train.momentum;
  return run(options);
}
