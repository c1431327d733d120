// This rank's window, which is memory of its GPU that its peers on this host read, and theirs
// (algorithms/peers.h).
//
// A window is made when the first call needs it. It has room for a few calls at a time; one that
// finds none goes on by the host. What a rank says of it, in each call, is an offer: whether the
// call's buffers are on the GPU of the window, whether the rank can read all of the others', and
// where the window is. Whoever hears that maps what it has not mapped yet. So the first call goes
// by the host, and all ranks see from the same words when they need no longer.
//
// Ranks of one process reach each other's memory by its address. Others open a handle (CUDA Driver
// API, cuIpcGetMemHandle). What peers say is checked: a wrong offer costs the way by windows.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "banyan/status.h"
#include "src/base/cuda_driver.h"
#include "src/cuda/nccl_team.h"
#include "src/cuda/open_gpu.h"
#include "src/engine/local_work.h"

namespace banyan {

// What a rank says of its window in a call.
struct WindowOffer {
  uint32_t magic = 0;
  uint8_t there = 0;  // it has one
  uint8_t ready = 0;  // and this call may go by it
  uint8_t place = 0;  // where in it
  uint8_t unused = 0;
  int32_t ordinal = -1;  // of its GPU, in its process
  uint32_t padding = 0;
  uint64_t address = 0;  // in its process
  uint64_t bytes = 0;
  CudaIpcHandle handle{};
  // A call by delegates needs its own window, and what ranks say of NCCL.
  NcclOffer nccl{};
  std::array<std::byte, 31> reserved{};
};
static_assert(sizeof(WindowOffer) == kOfferBytes);

class Windows {
 public:
  // `in_process[r]`: rank r is a thread of this process. `nccl`: where that library is.
  Windows(const CudaFunctions& cuda, int rank, std::vector<bool> in_process,
          const std::string& nccl = {});
  Windows(const Windows&) = delete;
  Windows& operator=(const Windows&) = delete;
  ~Windows();

  // What all but offers say: the call may go by windows on its GPU. A call is told apart by a
  // number while it is under way. `gpu`: of all of its buffers; null: they are not on one.
  // `delegates`: the call would go by NCCL.
  WindowOffer offer(uint64_t call, OpenGpu* gpu, bool delegates = false);
  // `offers` are those of all ranks, as they were sent.
  Branch decide(uint64_t call, std::span<const std::byte> offers, bool delegates = false);
  // After kPeers: where a rank's window for the call begins.
  std::byte* of(uint64_t call, int rank) const;
  void withdraw(uint64_t call);
  void withdraw_all();

  int rank() const { return static_cast<int>(rank_); }
  int ranks() const { return static_cast<int>(peers_.size()); }
  // The one that has this rank's window, once there is any.
  OpenGpu* gpu() const { return gpu_; }
  NcclTeam& nccl() { return nccl_; }

  // No call comes any more: what is of others is given back, before they end.
  void leave_others();

  // Counts the calls that went by windows.
  uint64_t calls() const { return calls_; }
  // That calls go by windows from now on, or why they do not, once; empty: nothing is to be said.
  std::string take_news() { return news_.empty() ? nccl_.take_news() : std::exchange(news_, {}); }

 private:
  static constexpr size_t kPlaces = 2;  // calls at a time

  // Memory of a GPU, this rank's or another's, that lasts as long as whoever uses it.
  using Mapped = std::shared_ptr<void>;
  struct Peer {
    CudaIpcHandle handle{};  // of what is mapped, or was refused
    Mapped memory{};         // null: it is not
    bool refused = false;
  };
  struct Place {
    bool taken = false;
    uint64_t call = 0;
    std::vector<std::byte*> windows{};  // by rank, once all are there
  };

  void have(OpenGpu& gpu);
  Status make(OpenGpu& gpu);
  Status lend();
  bool is_lent();
  Place* take_place(uint64_t call);
  bool decide_delegates(uint64_t call, std::span<const std::byte> offers);
  void map(size_t rank, const WindowOffer& offer);
  Result<Mapped> map_in_process(const WindowOffer& offer) const;
  Result<Mapped> borrow(const WindowOffer& offer) const;
  bool maps_all() const;
  Place* find(uint64_t call);
  void say_why_not(const Status& why);

  const CudaFunctions cuda_;
  const size_t rank_;
  const std::vector<bool> in_process_;
  OpenGpu* gpu_ = nullptr;  // of the window; null: nobody needed one
  Mapped own_;              // null: there is none, or none can be had
  enum class Lent : uint8_t { kNotYet, kYes, kRefused } lent_ = Lent::kNotYet;
  CudaIpcHandle handle_{};
  std::vector<Peer> peers_;
  NcclTeam nccl_;
  std::array<Place, kPlaces> places_{};
  uint64_t calls_ = 0;
  bool goes_ = false;     // calls by what ranks read themselves, once
  bool is_told_ = false;  // why they do not
  std::string news_;
};

}  // namespace banyan
