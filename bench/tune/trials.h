// Trials on a communicator: rank 0 says what is tried, all ranks do it, and rank 0 has the time.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "banyan/status.h"
#include "bench/perf/calls.h"
#include "bench/perf/job.h"
#include "bench/perf/measure.h"
#include "bench/perf/pattern.h"
#include "bench/tune/partners.h"
#include "bench/tune/search.h"
#include "topology/hierarchy.h"

namespace banyan::tune {

inline constexpr double kNotThere = 1e9;  // microseconds

// Makes blocking calls of the C interface on float32, as banyan_perf times them: all ranks begin
// each call together, and the mean over calls counts. A trial takes what it takes the slowest rank:
// in training all wait for that one, and a root that has left early is no sooner done.
class Trials {
 public:
  // `lie`: how ranks lie, the same on all; see partners.h.
  // `home`: of the buffers, but for those of probes.
  Trials(perf::Job& job, Hierarchy lie, perf::Home home = perf::Home::kHost)
      : job_(job), lie_(std::move(lie)), home_(home) {}

  // Finds the largest of the sizes up to 64 MiB for which the buffers of all ranks find room: the
  // whole vector counts where a rank has a block of each. Collective.
  Result<uint64_t> most_bytes(perf::Pattern pattern);

  // Renews the communicator, at rank 0; the others are in follow(). A trial runs on the
  // communicator of the last renewal, of which there must have been one, with buffers that are as
  // young. For buffers on GPUs there is one renewal: where their pages lie says little, and NCCL
  // takes long to begin.
  Status renew();
  // kNotThere: the trial is to go by NCCL, and did not.
  Result<double> run(const Trial& trial);
  // Calls that were to go by NCCL did not, though they had time to begin it.
  bool misses_nccl() const { return nccl_ == Nccl::kMissing; }
  Result<int> default_of(perf::Pattern pattern, uint64_t bytes);
  Result<std::vector<double>> probe(const Probe& probe);  // for each rank, as Prober has it
  Status stop();
  // At the others, until rank 0 stops.
  Status follow();

 private:
  struct Order;
  enum class Nccl : uint8_t { kUnknown, kThere, kMissing };

  Result<double> obey(const Order& order);
  Result<bool> is_by_nccl(const perf::Call& call);
  Result<std::vector<double>> exchange(const Probe& probe);
  Status use(const std::string& rules);
  Status use_codec(int codec);

  Status make_anew();
  Status leave();  // the communicator of trials

  perf::Job& job_;                    // for orders and probes
  std::unique_ptr<perf::Job> trial_;  // for trials
  Hierarchy lie_;
  perf::Home home_;
  perf::Buffers buffers_;
  perf::Buffers probe_buffers_;  // on the host
  Nccl nccl_ = Nccl::kUnknown;
  std::optional<std::string> rules_;  // that decide now in trials; nothing: those of the job
  std::optional<int> codec_;          // likewise, as Trial has it
};

}  // namespace banyan::tune
