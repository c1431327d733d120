// banyan_tune: measures which algorithm is fastest at which size, and writes the tuning file.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/launched.h"
#include "bench/machine.h"
#include "bench/output.h"
#include "bench/perf/run.h"
#include "bench/tune/candidates.h"
#include "bench/tune/codec_trials.h"
#include "bench/tune/options.h"
#include "bench/tune/probes.h"
#include "bench/tune/result.h"
#include "bench/tune/search.h"
#include "bench/tune/sums.h"
#include "bench/tune/trials.h"
#include "src/base/clock.h"
#include "src/base/environment.h"
#include "src/base/file.h"
#include "src/base/parse.h"
#include "src/c_api/inspect.h"
#include "src/tuning/codec_speeds.h"
#include "src/tuning/tuning_file.h"
#include "topology/discovery/discover.h"

namespace banyan::tune {

namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr uint32_t kSeed = 1;
constexpr double kPartForCodecs = 0.15;  // of what links have left
constexpr double kPartForLinks = 0.15;   // of the budget
constexpr double kReserve = 0.2;         // of the budget in seconds, for leaving and writing
constexpr double kOvertime = 4;          // beyond the budget, in seconds: then this process ends

int fail(int status, std::string_view text) {
  if (!text.empty()) std::fputs(fmt::format("banyan_tune: {}\n", text).c_str(), stderr);
  return status;
}

void end_at_once(int /*signal*/) {
  constexpr std::string_view kText =
      "banyan_tune: ended 4 s after the budget: a call did not return; nothing is written\n";
  (void)!::write(STDERR_FILENO, kText.data(), kText.size());
  ::_exit(kFailed);
}

double seconds_until(TimePoint end) {
  return std::chrono::duration<double>(end - Clock::now()).count();
}

// Whatever happens. Each process has a timer of its own.
void end_by_itself(TimePoint end) {
  ::signal(SIGALRM, end_at_once);
  const double seconds = std::max(0.001, seconds_until(end) + kOvertime);
  itimerval timer{};
  timer.it_value.tv_sec = static_cast<time_t>(seconds);
  timer.it_value.tv_usec = static_cast<suseconds_t>((seconds - std::floor(seconds)) * 1e6);
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}

// On a terminal, in one line that is written again and again.
class Progress {
 public:
  explicit Progress(double budget_s) : budget_s_(budget_s), shown_(::isatty(STDERR_FILENO) == 1) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() {
    if (shown_) std::fputs("\r\033[K", stderr);
  }

  void show(perf::Pattern pattern, uint64_t bytes, double seconds_left) const {
    if (!shown_) return;
    const double part = std::clamp(1 - seconds_left / budget_s_, 0.0, 1.0);
    std::fputs(fmt::format("\r\033[K{:3.0f} % {} {}", 100 * part, perf::name_of(pattern),
                           format_size(bytes))
                   .c_str(),
               stderr);
  }

 private:
  double budget_s_;
  bool shown_;
};

// Null: it is not one of them.
const Subject* allreduce_of(const std::vector<Subject>& subjects) {
  const auto found = std::find_if(subjects.begin(), subjects.end(), [](const Subject& each) {
    return each.pattern == perf::Pattern::kAllreduce;
  });
  return found == subjects.end() ? nullptr : &*found;
}

struct Tuned {
  TuningFile file{};
  std::string report{};
};

// The names of the hosts in the order that gains; none where two hosts have one name.
Result<std::vector<std::string>> ring_of(banyan_comm_t comm, const Hierarchy& lie,
                                         const EdgeCosts& edges) {
  const auto names = host_names_of(comm);
  BANYAN_TRY(names.status());
  std::vector<std::string> ring;
  for (const int host : ring_that_gains(edges)) {
    const std::string& name = (*names)[static_cast<size_t>(lie.members(0, host).front())];
    if (std::find(ring.begin(), ring.end(), name) != ring.end()) return std::vector<std::string>();
    ring.push_back(name);
  }
  return ring;
}

std::string report_of_ring(const std::vector<std::string>& ring) {
  std::string text;
  for (const std::string& name : ring)
    text += fmt::format("{}{}", text.empty() ? "# rings go from host to host: " : ", ",
                        printable(name));
  return text.empty() ? text : text + '\n';
}

std::string report_of_nccl(const Trials& trials) {
  if (!trials.misses_nccl()) return "";
  return "# calls that ask for NCCL did not go by it; with BANYAN_DEBUG=info the log says why\n";
}

// GB/s of each port that is up; none where one of them does not say it.
std::vector<double> nics_of_this_host() {
  std::vector<double> rates;
  const RawEnvironment raw = RawEnvironment::of_process();
  const std::string* root = raw.find("BANYAN_SYSROOT");
  const auto topology = discover(root == nullptr ? std::string() : *root);
  if (!topology.ok()) return rates;
  for (const int port : vertices_of(*topology, VertexKind::kPort)) {
    const Vertex& vertex = topology->vertices[static_cast<size_t>(port)];
    if (!is_up(vertex)) continue;
    if (!(vertex.rate.value.value_or(0) > 0)) return {};
    rates.push_back(*vertex.rate.value);
  }
  return rates;
}

// Collective; the result is rank 0's.
Result<Tuned> tune(perf::Job& job, const Options& options, TimePoint end) {
  if (job.size() < 2) return Status(Code::kInvalidUsage, "one rank has nothing to choose");
  const auto nodes = nodes_of(job.comm());
  BANYAN_TRY(nodes.status());
  const auto ppn = ppn_of(job.comm());
  BANYAN_TRY(ppn.status());
  const auto levels = has_levels(job.comm());
  BANYAN_TRY(levels.status());
  const auto lie = hosts_and_tiers_of(job.comm());
  BANYAN_TRY(lie.status());
  Trials trials(job, *lie, options.home);
  std::vector<Subject> subjects;
  for (const perf::Pattern pattern : options.collectives) {
    const auto most = trials.most_bytes(pattern);
    BANYAN_TRY(most.status());
    subjects.push_back({pattern, candidates_for(pattern, *levels, options.home), *most});
  }
  if (job.rank() != 0) {
    BANYAN_TRY(trials.follow());
    return Tuned{};
  }
  const std::vector<double> nics = nics_of_this_host();
  Measurement measurement;
  std::vector<CodecTime> codec_times;
  {
    const Progress progress(options.budget_s);
    const auto left = [&] { return seconds_until(end) - kReserve; };
    auto measured = measure_links(
        *lie,
        {.run = [&](const Probe& probe) { return trials.probe(probe); }, .seconds_left = left},
        kPartForLinks * left());
    BANYAN_TRY(measured.status());
    measurement = std::move(*measured);
    measurement.links.sums = measure_sums();
    complete(measurement.links);
    const Laboratory laboratory{
        .renew = [&] { return trials.renew(); },
        .run = [&](const Trial& trial) { return trials.run(trial); },
        .default_of = [&](auto pattern, auto bytes) { return trials.default_of(pattern, bytes); },
        .seconds_left = left,
        .progress = [&](auto pattern, auto bytes) { progress.show(pattern, bytes, left()); }};
    // Between hosts links decide, whose figures a network that falters now and then spoils less.
    const bool in_memory = !measurement.links.between;
    const double reserve = in_memory && allreduce_of(subjects) ? kPartForCodecs * left() : 0;
    Laboratory first = laboratory;
    first.seconds_left = [&] { return left() - reserve; };
    BANYAN_TRY(search(subjects, first, kSeed));
    if (const Subject* allreduce = allreduce_of(subjects); in_memory && allreduce != nullptr) {
      auto times = time_codecs(*allreduce, laboratory, kSeed);
      BANYAN_TRY(times.status());
      codec_times = std::move(*times);
    }
  }
  BANYAN_TRY(trials.stop());
  const auto fingerprint = fingerprint_of(job.comm());
  BANYAN_TRY(fingerprint.status());
  const auto ring = ring_of(job.comm(), *lie, measurement.edges);
  BANYAN_TRY(ring.status());
  Tuned tuned{.file = {.version = version_text(),
                       .tuned_on = *fingerprint,
                       .links = measurement.links,
                       .codec_times = codec_times,
                       .ring = *ring}};
  for (const Subject& subject : subjects)
    for (TuningRule& rule :
         rules_of(subject, {job.size(), *nodes, *ppn}, measurement.links.between.has_value()))
      tuned.file.rules.push_back(std::move(rule));
  tuned.report =
      fmt::format("# banyan_tune {}, {} ranks on {} host{}, {}; {}, {} cores\n", version_text(),
                  fingerprint->ranks, fingerprint->hosts, fingerprint->hosts == 1 ? "" : "s",
                  fingerprint->transports, fingerprint->cpu, fingerprint->cores) +
      report_of(tuned.file.links) + doubts_of(measurement, nics) + report_of_ring(tuned.file.ring) +
      report_of(tuned.file.codec_times) + report_of(subjects) + report_of_nccl(trials);
  return tuned;
}

Status finish(const Options& options, const Tuned& tuned) {
  BANYAN_TRY(write_tuning_file(options.output, tuned.file));
  Output output("banyan_tune");
  output.print(tuned.report);
  output.print(fmt::format("# {} rules in {}; use them with BANYAN_TUNE_FILE={}\n",
                           tuned.file.rules.size(), printable(options.output),
                           printable(options.output)));
  return output.finish() == 0 ? Status() : Status(Code::kSystem, "");
}

perf::Outcome run_rank(const Options& options, perf::Team* team, int rank, const Status& ready,
                       TimePoint end) {
  end_by_itself(end);
  const auto job = perf::join_team(team, rank);
  // Where rank 0 cannot write it meets the others all the same, so that they end with it.
  if (!ready.ok()) return {kFailed, std::string(ready.message())};
  if (!job.ok()) return {kFailed, std::string(job.status().message())};
  const auto tuned = tune(**job, options, end);
  if (!tuned.ok()) return {kFailed, std::string(tuned.status().message())};
  Status status = (*job)->finalize();
  if (status.ok() && (*job)->rank() == 0) status = finish(options, *tuned);
  return status.ok() ? perf::Outcome{} : perf::Outcome{kFailed, std::string(status.message())};
}

Status check_output(const Options& options) {
  Status status = check_replaceable(options.output);
  if (status.ok()) return status;
  return {status.code(), fmt::format("-o {}: {}", printable(options.output), status.message())};
}

int run_here(const Options& options, TimePoint end) {
  if (const Status status = check_output(options); !status.ok())
    return fail(kFailed, status.message());
  const auto team = perf::Team::create(options.ranks, "banyan_tune");
  if (!team.ok()) return fail(kFailed, team.status().message());
  const auto rank = (*team)->start();
  if (!rank.ok()) return fail(kFailed, rank.status().message());
  if (*rank < 0) return (*team)->supervise();
  const perf::Outcome outcome = run_rank(options, team->get(), *rank, {}, end);
  if (outcome.status != 0) (*team)->leave_words(*rank, outcome.text);
  return outcome.status;
}

int run_under_launcher(const Options& options, TimePoint end) {
  const auto launched = perf::find_launched(RawEnvironment::of_process());
  if (!launched.ok()) return fail(kUsage, launched.status().message());
  Status ready;
  if (launched->rank == 0) ready = check_output(options);
  const perf::Outcome outcome = run_rank(options, nullptr, launched->place, ready, end);
  return fail(outcome.status, outcome.status == 0 ? "" : outcome.text);
}

int run(int argc, const char* const* argv) {
  const CommandLine line = parse_command_line(argc, argv);
  if (!line.options && line.status == 0) {
    Output output("banyan_tune");
    output.print(line.text);
    return output.finish();
  }
  const RawEnvironment raw = RawEnvironment::of_process();
  if (!line.options) return refuse_once(line.status, line.text, raw);
  const int ranks = line.options->ranks;
  if (const std::string why = second_job(raw); ranks > 0 && !why.empty())
    return refuse_once(kUsage, fmt::format("banyan_tune: -n {}: {}\n", ranks, why), raw);
  // The default choice is what is compared with, and the file may be the one to be written.
  for (const char* name : {"BANYAN_ALGO", "BANYAN_TUNE_FILE"})
    ::unsetenv(name);  // NOLINT(concurrency-mt-unsafe): there is no second thread yet
  const TimePoint end = deadline_after(line.options->budget_s);
  return ranks > 0 ? run_here(*line.options, end) : run_under_launcher(*line.options, end);
}

}  // namespace

}  // namespace banyan::tune

int main(int argc, char** argv) {
  banyan::guard_standard_streams();
  try {
    return banyan::tune::run(argc, argv);
  } catch (const std::exception& error) {
    std::fputs(fmt::format("banyan_tune: {}\n", error.what()).c_str(), stderr);
    return 1;
  }
}
