// SPDX-License-Identifier: Apache-2.0

#include "src/cuda/nccl_team.h"

#include <fmt/core.h>

#include <algorithm>

namespace banyan {

void NcclTeam::refuse(std::string_view why) {
  leave();
  if (std::exchange(is_refused_, true)) return;
  news_ = fmt::format("NCCL is not used inside this host: {}", why);
}

void NcclTeam::open() {
  if (nccl_ || is_refused_) return;
  const Result<NcclFunctions> found = open_nccl(library_);
  if (!found.ok()) return refuse(found.status().message());
  nccl_ = *found;
  if (place_ != 0) return;
  const Status made = nccl_status(*nccl_, nccl_->new_id(&id_), "ncclGetUniqueId");
  if (!made.ok()) refuse(made.message());
}

void NcclTeam::join(const NcclId& id) {
  NcclConfig config;
  const int result = nccl_->init(&comm_, ranks_, id, place_, &config);
  const Status begun = nccl_status(*nccl_, result, "ncclCommInitRankConfig");
  if (!begun.ok()) return refuse(begun.message());
  if (comm_ == nullptr) refuse("ncclCommInitRankConfig gives no communicator");
}

bool NcclTeam::is_ready() {
  if (is_ready_ || comm_ == nullptr) return is_ready_;
  const Result<bool> made = is_enqueued();
  if (!made.ok()) refuse(made.status().message());
  is_ready_ = made.ok() && *made;
  return is_ready_;
}

NcclOffer NcclTeam::offer(uint64_t call, bool is_there) {
  open();
  NcclOffer offer{NcclWord::kNotNow, id_};
  const bool ready = is_ready();
  if (is_refused_) return {.word = NcclWord::kNever};
  if (!is_there) return offer;
  offer.word = NcclWord::kCan;
  if (!ready || call_) return offer;
  call_ = call;
  offer.word = NcclWord::kReady;
  return offer;
}

bool NcclTeam::decide(uint64_t call, std::span<const NcclOffer> offers) {
  NcclWord least = NcclWord::kReady;
  for (size_t place = 0; place < offers.size(); ++place) {
    least = std::min(least, offers[place].word);
    if (offers[place].word == NcclWord::kNever)
      refuse(fmt::format("rank {} of the host cannot", place));
  }
  if (is_refused_) least = NcclWord::kNotNow;
  if (least != NcclWord::kNotNow && comm_ == nullptr) join(offers.front().id);
  const bool goes = least == NcclWord::kReady && call_ == call && !is_refused_;
  if (!goes) withdraw(call);
  if (goes && !std::exchange(is_told_, true))
    news_ = "from this call on, NCCL moves what ranks of this host give each other";
  return goes;
}

void NcclTeam::withdraw(uint64_t call) {
  if (call_ == call) call_.reset();
}

Status NcclTeam::begin(std::span<const Piece> to, std::span<const Piece> from,
                       NcclFunctions::Stream stream) {
  if (comm_ == nullptr) return {Code::kCuda, "NCCL's communicator is gone"};
  BANYAN_TRY(nccl_status(*nccl_, nccl_->group_start(), "ncclGroupStart"));
  Status status;
  for (int place = 0; place < ranks_ && status.ok(); ++place) {
    const auto& [given, length] = to[static_cast<size_t>(place)];
    if (place != place_ && length != 0)
      status = nccl_status(*nccl_, nccl_->send(given, length, kNcclBytes, place, comm_, stream),
                           "ncclSend");
  }
  for (int place = 0; place < ranks_ && status.ok(); ++place) {
    const auto& [taken, length] = from[static_cast<size_t>(place)];
    if (place != place_ && length != 0)
      status = nccl_status(*nccl_, nccl_->receive(taken, length, kNcclBytes, place, comm_, stream),
                           "ncclRecv");
  }
  const Status ended = nccl_status(*nccl_, nccl_->group_end(), "ncclGroupEnd");
  return status.ok() ? ended : status;
}

Result<bool> NcclTeam::is_enqueued() const {
  if (comm_ == nullptr) return Status(Code::kCuda, "NCCL's communicator is gone");
  int state = kNcclSuccess;
  BANYAN_TRY(nccl_status(*nccl_, nccl_->async_error(comm_, &state), "ncclCommGetAsyncError"));
  BANYAN_TRY(nccl_status(*nccl_, state, "NCCL"));
  return state != kNcclInProgress;
}

void NcclTeam::leave() {
  if (comm_ != nullptr) (void)nccl_->abort(std::exchange(comm_, nullptr));
  is_ready_ = false;
}

}  // namespace banyan
