// This rank's window, which is memory of its GPU that its peers on this host read, and theirs
// (algorithms/peers.h).
//
// A window is made when the first call needs it. It has room for a few calls at a time; one that
// finds none goes on by the host. What a rank says of it, in each call, is an offer: whether the
// call's buffers are on the GPU of the window, whether the rank can read all of the others', and
// where the window is. Whoever hears that maps what it has not mapped yet. So the first call goes
// by the host, and all ranks see from the same words when they need no longer.
//
// Ranks of one process reach each other's memory by its address. Others open a handle, or map what
// a descriptor brings (src/cuda/window_memory.h). A window goes by a handle, unless none is to be
// had: then, and when a peer says that it cannot open one, it is made anew to go by a descriptor,
// once, while no call is in it. Who waits for a descriptor says in its offers where its mailbox is.
// A rank whose window goes by one is ready when all have said that they have it.
//
// What peers say is checked: a wrong offer costs the way by windows.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "banyan/status.h"
#include "compression/cuda/folds.h"
#include "src/base/cuda_driver.h"
#include "src/cuda/mailbox.h"
#include "src/cuda/nccl_team.h"
#include "src/cuda/open_gpu.h"
#include "src/cuda/window_memory.h"
#include "src/engine/local_work.h"

namespace banyan {

enum class WindowWay : uint8_t {
  kHandle,
  kDescriptor,
  kHandleOnly,  // no descriptor is to be had either
};

// What a rank says of its window in a call.
struct WindowOffer {
  uint32_t magic = 0;
  uint8_t there = 0;  // it has one
  uint8_t ready = 0;  // and this call may go by it
  uint8_t place = 0;  // where in it
  WindowWay way = WindowWay::kHandle;
  int32_t ordinal = -1;  // of its GPU, in its process
  uint16_t has = 0;      // by rank, whose descriptors it has mapped
  uint8_t wants = 0;     // descriptors: it cannot open a handle
  uint8_t unused = 0;
  uint64_t address = 0;  // in its process
  uint64_t bytes = 0;
  CudaIpcHandle handle{};  // by a descriptor, the token with which that comes
  MailboxName mailbox{};   // where descriptors are to go
  // A call by delegates needs its own window, and what ranks say of NCCL.
  NcclOffer nccl{};
  CudaScalar scalar{};  // of its contribution, where the call scales them
  std::array<std::byte, 7> reserved{};
};
static_assert(sizeof(WindowOffer) == kOfferBytes);
static_assert(sizeof(MailToken) == sizeof(CudaIpcHandle));
static_assert(kMostWindows <= 16);  // WindowOffer::has

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
  // `offers` are those of all ranks, as they were sent; each may have more behind it. `fits`: but
  // for windows, the call may go by them.
  Branch decide(uint64_t call, std::span<const std::byte> offers, bool delegates = false,
                bool fits = true);
  // After kPeers: where a rank's window for the call begins.
  std::byte* of(uint64_t call, int rank) const;
  // And what the ranks said that they scale by; empty: the call has no window any more.
  std::span<const CudaScalar> scalars(uint64_t call) const;
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
  static constexpr size_t kWindowMemory = kPlaces * kWindowBytes;

  enum class State : uint8_t {
    kUnknown,
    kMapped,
    kWanted,   // its handle was refused, and a descriptor may come
    kAwaited,  // it goes by a descriptor, which is to come
    kRefused,
  };
  struct Peer {
    State state = State::kUnknown;
    WindowWay way = WindowWay::kHandle;
    CudaIpcHandle handle{};  // of what this state is about
    SharedWindow memory{};   // null: it is not mapped
    // The peer has this rank's descriptor; it was sent there.
    bool has_ours = false;
    MailboxName sent_to{};
  };
  struct Place {
    bool taken = false;
    uint64_t call = 0;
    std::vector<std::byte*> windows{};  // by rank, once all are there
    std::vector<CudaScalar> scalars{};  // likewise
  };

  void have(OpenGpu& gpu);
  Status make();
  bool is_lent();
  Status lend();
  Status make_handle();
  Status make_by_descriptor(std::string why);
  void show(SharedWindow memory);
  void make_anew();

  bool any_peer_is(State state) const;
  bool all_have_ours() const;
  bool is_ready() const;

  void open_mailbox();
  void read_mail();
  void send_ours(size_t rank, const MailboxName& to);

  void hear(size_t rank, const WindowOffer& offer);
  bool is_news(size_t rank, const WindowOffer& offer);
  void map(size_t rank, const WindowOffer& offer);
  Result<SharedWindow> map_in_process(const WindowOffer& offer) const;
  Result<SharedWindow> import(const WindowOffer& offer);
  void refuse(size_t rank, const Status& why);

  const Place* find(uint64_t call) const;
  Place* find(uint64_t call) { return const_cast<Place*>(std::as_const(*this).find(call)); }
  Place* take_place(uint64_t call);
  WindowOffer offer_in(std::span<const std::byte> offers, size_t rank) const;
  bool decide_delegates(uint64_t call, std::span<const std::byte> offers);
  void say_why_not(const Status& why);
  void say_how();

  const CudaFunctions cuda_;
  const size_t rank_;
  const std::vector<bool> in_process_;
  OpenGpu* gpu_ = nullptr;  // of the window; null: nobody needed one
  SharedWindow own_;        // null: there is none, or none can be had
  enum class Lent : uint8_t { kNotYet, kYes, kRefused } lent_ = Lent::kNotYet;
  WindowWay way_ = WindowWay::kHandle;
  CudaIpcHandle handle_{};
  Descriptor descriptor_;   // of this rank's window, until all have it
  std::string why_anew_;    // a peer wants descriptors; empty: none does
  std::string why_wanted_;  // this rank does: the first handle that was refused
  std::vector<Peer> peers_;
  NcclTeam nccl_;
  std::optional<Mailbox> mailbox_;  // while a descriptor may come
  std::vector<Mailbox::Letter> letters_;
  // What was a window before. To give it back may take until streams are done, which may wait for
  // a call that is under way.
  std::vector<SharedWindow> own_before_;
  std::vector<SharedWindow> others_before_;
  std::array<Place, kPlaces> places_{};
  uint64_t calls_ = 0;
  bool goes_ = false;     // calls by what ranks read themselves, once
  bool is_told_ = false;  // why they do not
  std::string news_;
  std::string why_by_descriptor_;  // what was refused before
};

}  // namespace banyan
