// The ranks of a host as one communicator of NCCL, which does the delegates of calls that ask for
// it (algorithms/delegated.h).
//
// It is made when the first such call comes, without blocking: what a rank says of it in that call
// is that it can, and, if it is the first of them, by which id they meet. A call goes by it once
// all say that they are ready, and one call at a time does, so that all ranks have their delegates
// in one order. Where a rank cannot, or has failed, none uses it from then on. Source: NCCL API
// reference, "Nonblocking Communicators", "Group Calls", "Point To Point".
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "banyan/status.h"
#include "src/cuda/nccl.h"

namespace banyan {

// What a rank says of its part in a call. One that says nothing has its buffers elsewhere.
enum class NcclWord : uint8_t { kNotNow, kCan, kReady, kNever };
struct NcclOffer {
  NcclWord word = NcclWord::kNotNow;
  NcclId id{};  // of the first rank
};

// Everything requires the context of the rank's GPU to be current.
class NcclTeam {
 public:
  // `place`: of this rank among so many.
  NcclTeam(int place, int ranks, std::string library)
      : place_(place), ranks_(ranks), library_(std::move(library)) {}
  NcclTeam(const NcclTeam&) = delete;
  NcclTeam& operator=(const NcclTeam&) = delete;
  ~NcclTeam() { leave(); }

  // `is_there`: this rank's buffers are on its GPU, and it has a window.
  NcclOffer offer(uint64_t call, bool is_there);
  // Whether the call goes by it; `offers` are those of all ranks, by place.
  bool decide(uint64_t call, std::span<const NcclOffer> offers);
  void withdraw(uint64_t call);

  // What goes to a rank, or comes from it.
  struct Piece {
    std::byte* at;
    size_t bytes;
  };
  // Begins to enqueue an exchange in the stream: is_enqueued() says when that is done. Empty pieces
  // and the own place are left out.
  Status begin(std::span<const Piece> to, std::span<const Piece> from,
               NcclFunctions::Stream stream);
  // kCuda: it cannot be.
  Result<bool> is_enqueued() const;
  // What was begun ends soon, wherever the other ranks are.
  void leave();

  std::string take_news() { return std::exchange(news_, {}); }

 private:
  void refuse(std::string_view why);
  void open();
  void join(const NcclId& id);
  bool is_ready();

  const int place_;
  const int ranks_;
  const std::string library_;
  std::optional<NcclFunctions> nccl_;  // nothing: nobody needed it, or it is refused
  NcclId id_{};                        // of the first rank
  bool is_refused_ = false;
  bool is_ready_ = false;
  NcclFunctions::Comm comm_ = nullptr;
  std::optional<uint64_t> call_;  // that may go by it
  bool is_told_ = false;
  std::string news_;
};

}  // namespace banyan
