// Times the steps of a training that computes nothing: the tensors are those of a real model, their
// gradients travel through Banyan, and computation is time that passes.
//
//   train_synthetic -n 4 --model resnet50 --compute 200ms
//   tools/netlab -H 4 -p 1 -r 1gbit -- train_synthetic --model gpt2 --compress int8
//
// Exit status: 0 measured, 1 something failed, 2 wrong options.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <string>

#include <CLI/CLI.hpp>

#include "banyan/banyan.h"
#include "banyan/communicator.h"
#include "examples/local_ranks.h"
#include "examples/train_synthetic/measure.h"
#include "examples/train_synthetic/models.h"

namespace {

using banyan::synthetic::Model;
using banyan::synthetic::Report;
using banyan::synthetic::StepTimes;
using banyan::synthetic::Way;

struct Options {
  banyan::example::Job job;
  std::string model = "resnet50";
  std::string way = "reducer";
  std::string json;     // "-": stdout, and nothing else there
  bool layers = false;  // prints them, and no more
  banyan::synthetic::Options measure;

  bool tells() const { return json != "-"; }
};

int fail(const banyan::Status& status, int code = 1) {
  fmt::print(stderr, "train_synthetic: {}\n", status.message());
  return code;
}

// A line for each tensor: the number of its layer, the layer's share of the computation time, its
// elements and its name.
void print_layers(const Model& model) {
  for (size_t layer = 0; layer < model.size(); ++layer)
    for (const banyan::synthetic::Tensor& tensor : model[layer].tensors)
      fmt::print("{} {:.9f} {} {}\n", layer, model[layer].work / work_of(model), tensor.count,
                 tensor.name);
}

void print_row(const char* what, const StepTimes& times) {
  fmt::print("{:14}  {:10.3f}  {:10.3f}  {:10.3f}\n", what, 1e3 * times.median, 1e3 * times.least,
             1e3 * times.most);
}

void print_text(const Report& report) {
  fmt::print("ms of a step        median       least        most\n");
  fmt::print("{:14}  {:10.3f}\n", "computation", 1e3 * report.compute);
  print_row("communication", report.communication);
  print_row("both", report.step);
  fmt::print("overlap {:.1f} %: the share of the shorter of the two that was hidden\n",
             100 * report.overlap());
  if (report.bytes) fmt::print("{:.0f} bytes sent in a step, by all ranks\n", *report.bytes);
}

std::string json_of(const StepTimes& times) {
  return fmt::format(R"({{"median": {:.6f}, "least": {:.6f}, "most": {:.6f}}})", 1e3 * times.median,
                     1e3 * times.least, 1e3 * times.most);
}

// Texts are names that were understood: nothing in them needs to be escaped.
std::string json_of(const Options& options, const Model& model, int ranks, const Report& report) {
  const std::string& compress = options.job.compress;
  return fmt::format(
      "{{\"model\": \"{}\", \"parameters\": {}, \"tensors\": {}, \"ranks\": {}, \"way\": \"{}\", "
      "\"compress\": {}, \"spins\": {}, \"steps\": {}, \"version\": {}, \"compute_ms\": {:.6f}, "
      "\"communication_ms\": {}, \"step_ms\": {}, \"overlap\": {:.4f}, \"bytes_per_step\": {}}}\n",
      options.model, parameters_of(model), tensors_of(model), ranks, options.way,
      compress.empty() ? "null" : fmt::format("\"{}\"", compress), options.measure.spins,
      options.measure.steps, banyan_version(), 1e3 * report.compute, json_of(report.communication),
      json_of(report.step), report.overlap(),
      report.bytes ? fmt::format("{:.0f}", *report.bytes) : "null");
}

banyan::Status write(const std::string& path, const std::string& text) {
  std::FILE* file = path == "-" ? stdout : std::fopen(path.c_str(), "w");
  if (file == nullptr)
    return {banyan::Code::kSystem, fmt::format("{}: it cannot be written", path)};
  const bool written = std::fputs(text.c_str(), file) >= 0;
  const bool ended = file == stdout ? std::fflush(file) == 0 : std::fclose(file) == 0;
  if (written && ended) return {};
  return {banyan::Code::kSystem, fmt::format("{}: it cannot be written", path)};
}

int run_rank(banyan::Result<banyan::Communicator> made, const Model& model,
             const Options& options) {
  if (!made.ok()) return fail(made.status());
  const bool leads = made->rank() == 0;
  const int ranks = made->size();
  if (leads && options.tells()) {
    fmt::print("{}: {} parameters in {} tensors; {} ranks, way {}; {} steps, times in ms\n",
               options.model, parameters_of(model), tensors_of(model), ranks, options.way,
               options.measure.steps);
    std::fflush(stdout);
  }
  const auto report = measure(*made, model, options.measure);
  if (!report.ok()) return fail(report.status());
  const banyan::Status ended = made->finalize();
  if (!ended.ok()) return fail(ended);
  if (!leads) return 0;
  if (options.tells()) print_text(*report);
  if (options.json.empty()) return 0;
  const auto written = write(options.json, json_of(options, model, ranks, *report));
  return written.ok() ? 0 : fail(written);
}

void describe(CLI::App& app, Options& options) {
  auto& measure = options.measure;
  app.add_option("-n,--ranks", options.job.ranks,
                 "start this many ranks on this machine (default: the launcher's)")
      ->check(CLI::Range(1, 64));
  app.add_option("--model", options.model,
                 "resnet50, gpt2, or mlp:A-B-C for layers of A to C nodes")
      ->capture_default_str();
  app.add_option("--compress", options.job.compress, "as BANYAN_COMPRESS, in place of it");
  app.add_option("--way", options.way,
                 "reducer: gradients travel while others are computed; end: one allreduce of all")
      ->check(CLI::IsMember({"reducer", "end"}))
      ->capture_default_str();
  app.add_option("--compute", measure.compute,
                 "that a step computes, such as 200ms (default), a third of it forward; layers "
                 "share it by their multiply-adds")
      ->transform(
          CLI::AsNumberWithUnit(std::map<std::string, double>{{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}},
                                CLI::AsNumberWithUnit::UNIT_REQUIRED))
      ->check(CLI::Range(0.0, 3600.0))
      ->type_name("TIME");
  app.add_flag("--spin", measure.spins, "compute by spinning on a core; without it, by sleeping");
  app.add_option("--steps", measure.steps, "that are timed")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--warm-up", measure.warm_up, "steps before those")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  app.add_option("--bucket-bytes", measure.bucket_bytes,
                 "of the reducer, such as 4M; 0: chosen (default)")
      ->transform(CLI::AsSizeValue(false))
      ->type_name("SIZE");
  app.add_option("--json", options.json, "write a report to FILE; -: to stdout, nothing else")
      ->type_name("FILE");
  app.add_flag("--layers", options.layers,
               "print layer, share of the time, elements and name of each tensor, and end");
  app.footer("Example: train_synthetic -n 4 --model gpt2 --compute 500ms");
}

}  // namespace

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape): without memory it just ends
  CLI::App app("Times the steps of a training whose computation is time that passes.",
               "train_synthetic");
  Options options;
  describe(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (options.way == "end") options.measure.way = Way::kEnd;
  const auto model = banyan::synthetic::model_of(options.model);
  if (!model.ok()) return fail(model.status(), 2);
  if (options.layers) {
    print_layers(*model);
    return 0;
  }
  return banyan::example::run_ranks(options.job,
                                    [&](banyan::Result<banyan::Communicator> communicator) {
                                      return run_rank(std::move(communicator), *model, options);
                                    });
}
