// What looks at a group as a whole: groups of some of its ranks, and who of them is missing.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <string>
#include <utility>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "python/banyan/torch/backend.h"

namespace banyan::process_group {
namespace {

using std::chrono::milliseconds;

// Callers' tags are from 0 on. Each barrier has its own, so that who comes too late is in no later
// one.
int arrival_tag(int barrier) {
  return -2 * barrier;
}
int verdict_tag(int barrier) {
  return -2 * barrier - 1;
}

// What a rank that has arrived waits beyond the timeout for rank 0 to say so.
constexpr milliseconds kGrace{5000};

std::string listed(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "Rank " : "Ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

}  // namespace

// torch may give the store of this group, whose keys are taken. The same ranks may have met before.
ProcessGroupBanyan::BackendPtr ProcessGroupBanyan::group_of(
    const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
    const c10::intrusive_ptr<Options>& options) {
  std::string prefix = "banyan-part";
  for (const int rank : ranks) {
    prefix += '-';
    prefix += std::to_string(rank);
  }
  prefix += '/';
  prefix += std::to_string(parts_[ranks]++);
  const auto place = std::find(ranks.begin(), ranks.end(), getRank()) - ranks.begin();
  const milliseconds timeout = options == nullptr ? milliseconds(timeout_ms_) : options->timeout;
  return c10::make_intrusive<ProcessGroupBanyan>(
      c10::make_intrusive<c10d::PrefixStore>(prefix, store), static_cast<int>(place),
      static_cast<int>(ranks.size()), timeout, settings_);
}

ProcessGroupBanyan::BackendPtr ProcessGroupBanyan::split(
    const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
    const c10::intrusive_ptr<Options>& options) {
  check_usable("split");
  for (size_t i = 0; i < ranks.size(); ++i) {
    check_rank("split", ranks[i]);
    TORCH_CHECK(std::count(ranks.begin(), ranks.end(), ranks[i]) == 1, "banyan split: rank ",
                ranks[i], " is named twice; valid: once");
  }
  TORCH_CHECK(
      std::count(ranks.begin(), ranks.end(), getRank()) == 1, "banyan split: rank ", getRank(),
      " calls it, and is not among those of the new group; valid: a call by its ranks only");
  return group_of(store, ranks, options);
}

ProcessGroupBanyan::BackendPtr ProcessGroupBanyan::shrink(
    const std::vector<int64_t>& left_out, int flags, const c10::intrusive_ptr<Options>& options) {
  constexpr int kAbort = 1;  // NCCL_SHRINK_ABORT
  TORCH_CHECK(flags == 0 || flags == kAbort, "banyan shrink: flags are ", flags,
              "; valid: 0 and 1");
  if (flags == 0) check_usable("shrink");
  std::vector<int> ranks;
  for (const int64_t rank : left_out) check_rank("shrink", rank);
  for (int rank = 0; rank < getSize(); ++rank)
    if (std::count(left_out.begin(), left_out.end(), rank) == 0) ranks.push_back(rank);
  TORCH_CHECK(std::count(ranks.begin(), ranks.end(), getRank()) == 1, "banyan shrink: rank ",
              getRank(),
              " calls it, and is among those that are left out; valid: a call by the others only");
  if (flags == kAbort) abort();
  return group_of(store_, ranks, options);
}

WorkRef ProcessGroupBanyan::message(bool sends, const at::Tensor& tensor, int peer, int tag,
                                    milliseconds timeout) {
  const auto type = sends ? c10d::OpType::SEND : c10d::OpType::RECV;
  auto work =
      c10::make_intrusive<Work>(getRank(), type, "banyan:monitored_barrier",
                                std::vector<at::Tensor>{}, std::vector<at::Tensor>{}, sequence_);
  const double timeout_s = static_cast<double>(timeout.count()) / 1000;
  if (sends)
    messages_->send(tensor, peer, tag, work, timeout_s);
  else
    messages_->recv(tensor, peer, tag, work, timeout_s);
  return work;
}

std::vector<int> ProcessGroupBanyan::find_missing(int tag, milliseconds timeout, bool all) {
  std::vector<WorkRef> arrivals;
  for (int rank = 1; rank < getSize(); ++rank)
    arrivals.push_back(message(false, at::empty({0}, at::kByte), rank, tag, timeout));
  std::vector<int> missing;
  for (int rank = 1; rank < getSize(); ++rank) {
    try {
      arrivals[static_cast<size_t>(rank - 1)]->wait();
    } catch (const std::exception&) {
      missing.push_back(rank);
    }
    if (!missing.empty() && !all) break;
  }
  return missing;
}

void ProcessGroupBanyan::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all) {
  check_usable("monitored_barrier");
  if (getSize() == 1) return;
  const bool unset = options.timeout == c10d::kUnsetTimeout;
  const milliseconds timeout = unset ? milliseconds(timeout_ms_) : options.timeout;
  const int number = ++barriers_;
  if (timeout.count() <= 0)
    C10_THROW_ERROR(DistBackendError, "Rank " + std::to_string(getRank()) +
                                          " timed out in monitoredBarrier after 0 ms");
  // By rank: whether it is missing.
  at::Tensor verdict = at::zeros({getSize()}, at::kByte);
  if (getRank() == 0) {
    for (const int rank : find_missing(arrival_tag(number), timeout, wait_all)) verdict[rank] = 1;
    for (int rank = 1; rank < getSize(); ++rank)
      (void)message(true, verdict, rank, verdict_tag(number), kGrace);
  } else {
    (void)message(true, at::empty({0}, at::kByte), 0, arrival_tag(number), timeout);
    message(false, verdict, 0, verdict_tag(number), timeout + kGrace)->wait();
  }
  std::vector<int> missing;
  for (int rank = 0; rank < getSize(); ++rank)
    if (verdict[rank].item<uint8_t>() != 0) missing.push_back(rank);
  if (!missing.empty())
    C10_THROW_ERROR(DistBackendError, listed(missing) + " failed to pass monitoredBarrier in " +
                                          std::to_string(timeout.count()) + " ms");
}

}  // namespace banyan::process_group
