// SPDX-License-Identifier: Apache-2.0

#include "src/cuda/windows.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "src/base/process.h"
#include "src/cuda/driver_calls.h"

namespace banyan {
namespace {

constexpr uint32_t kMagic = 0x4e49'5742;   // "BWIN"
constexpr int kPeerAccessIsEnabled = 704;  // CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED

// By which ranks of one process find a window.
std::string name_of_window(const CudaIpcHandle& handle, const void* address) {
  return fmt::format("GPU window {} ", address) +
         std::string(reinterpret_cast<const char*>(handle.bytes), sizeof handle);
}

bool is_same_handle(const CudaIpcHandle& one, const CudaIpcHandle& other) {
  return std::memcmp(&one, &other, sizeof one) == 0;
}

}  // namespace

Windows::Windows(const CudaFunctions& cuda, int rank, std::vector<bool> in_process,
                 const std::string& nccl)
    : cuda_(cuda),
      rank_(static_cast<size_t>(rank)),
      in_process_(std::move(in_process)),
      peers_(in_process_.size()),
      nccl_(rank, static_cast<int>(in_process_.size()), nccl) {}

Windows::~Windows() {
  leave_others();
}

void Windows::say_why_not(const Status& why) {
  if (std::exchange(is_told_, true)) return;
  news_ = fmt::format("ranks do not read each other's memory of GPUs: {}", why.message());
}

void Windows::say_how() {
  news_ = "from this call on, ranks read each other's memory of GPUs";
  if (way_ == WindowWay::kDescriptor)
    news_ += fmt::format(", that of rank {} by a descriptor: {}", rank_, why_by_descriptor_);
}

Status Windows::make() {
  if (cuda_.allocate == nullptr || cuda_.free == nullptr)
    return {Code::kUnsupported, "the CUDA driver of this process gives no memory"};
  if (gpu_->kernels() == nullptr)
    return {Code::kUnsupported, "this build or the driver has no kernels for the GPU"};
  Result<SharedWindow> memory = allocate_window(cuda_, *gpu_, kWindowMemory);
  BANYAN_TRY(memory.status());
  own_ = std::move(*memory);
  return {};
}

// Only processes need handles.
Status Windows::make_handle() {
  const bool is_for_threads =
      std::find(in_process_.begin(), in_process_.end(), false) == in_process_.end();
  if (is_for_threads) return draw_random(std::as_writable_bytes(std::span(handle_.bytes)));
  BANYAN_TRY(check_handles(cuda_));
  const CurrentContext current = gpu_->make_current();
  return cuda_status(cuda_, cuda_.lend(&handle_, cuda_address(own_.get())), "cuIpcGetMemHandle");
}

Status Windows::lend() {
  const Status by_handle = make_handle();
  if (by_handle.ok()) {
    show(own_);
    return {};
  }
  const Status made = make_by_descriptor(std::string(by_handle.message()));
  if (made.ok()) return {};
  return {made.code(), fmt::format("{}; {}", by_handle.message(), made.message())};
}

bool Windows::is_lent() {
  if (gpu_ == nullptr || own_ == nullptr) return false;
  if (lent_ != Lent::kNotYet) return lent_ == Lent::kYes;
  const Status lent = lend();
  lent_ = lent.ok() ? Lent::kYes : Lent::kRefused;
  if (!lent.ok()) say_why_not(lent);
  return lent.ok();
}

Status Windows::make_by_descriptor(std::string why) {
  CudaIpcHandle token{};
  BANYAN_TRY(draw_random(std::as_writable_bytes(std::span(token.bytes))));
  Result<ExportedWindow> made = export_window(cuda_, *gpu_, kWindowMemory);
  BANYAN_TRY(made.status());
  if (own_ != nullptr) own_before_.push_back(std::move(own_));
  way_ = WindowWay::kDescriptor;
  why_by_descriptor_ = std::move(why);
  handle_ = token;
  descriptor_ = std::move(made->descriptor);
  show(std::move(made->memory));
  return {};
}

// Threads of this process find it from now on.
void Windows::show(SharedWindow memory) {
  own_ = process().share(name_of_window(handle_, memory.get()), [&] { return memory; });
}

void Windows::have(OpenGpu& gpu) {
  if (gpu_ != nullptr) return;
  gpu_ = &gpu;
  if (const Status made = make(); !made.ok()) say_why_not(made);
}

// For peers that want descriptors, once.
void Windows::make_anew() {
  const bool is_in_use =
      std::any_of(places_.begin(), places_.end(), [](const Place& place) { return place.taken; });
  if (why_anew_.empty() || own_ == nullptr || way_ != WindowWay::kHandle || is_in_use) return;
  const Status made = make_by_descriptor(why_anew_);
  if (made.ok()) return;
  way_ = WindowWay::kHandleOnly;
  say_why_not({made.code(), fmt::format("{}; {}", why_anew_, made.message())});
}

bool Windows::any_peer_is(State state) const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [&](const Peer& peer) { return peer.state == state; });
}

// What peers have by a handle, they can read from the first offer on that says so; a descriptor
// they have when it has come.
bool Windows::all_have_ours() const {
  for (size_t rank = 0; rank < peers_.size(); ++rank)
    if (rank != rank_ && !peers_[rank].has_ours) return false;
  return true;
}

bool Windows::is_ready() const {
  const bool is_to_change = way_ == WindowWay::kHandle && !why_anew_.empty();
  if (is_to_change) return false;  // else calls that overlap would leave no time for it
  for (size_t rank = 0; rank < peers_.size(); ++rank)
    if (rank != rank_ && peers_[rank].state != State::kMapped) return false;
  return way_ != WindowWay::kDescriptor || all_have_ours();
}

const Windows::Place* Windows::find(uint64_t call) const {
  const auto found = std::find_if(places_.begin(), places_.end(), [&](const Place& place) {
    return place.taken && place.call == call;
  });
  return found == places_.end() ? nullptr : &*found;
}

// Null: so many calls are under way already.
Windows::Place* Windows::take_place(uint64_t call) {
  const auto free =
      std::find_if(places_.begin(), places_.end(), [](const Place& place) { return !place.taken; });
  if (free == places_.end()) return nullptr;
  const auto number = static_cast<size_t>(free - places_.begin());
  free->taken = true;
  free->call = call;
  free->windows.assign(peers_.size(), nullptr);
  free->scalars.assign(peers_.size(), {});
  free->windows[rank_] = static_cast<std::byte*>(own_.get()) + number * kWindowBytes;
  return &*free;
}

WindowOffer Windows::offer(uint64_t call, OpenGpu* gpu, bool delegates) {
  WindowOffer offer{.magic = kMagic};
  if (gpu != nullptr) have(*gpu);
  const bool has_buffers = own_ != nullptr && gpu == gpu_;
  if (delegates) {
    if (gpu_ == nullptr) return offer;
    const CurrentContext current = gpu_->make_current();
    const Place* const place = has_buffers ? take_place(call) : nullptr;
    offer.nccl = nccl_.offer(call, place != nullptr);
    return offer;
  }
  if (gpu_ == nullptr || !is_lent()) return offer;
  make_anew();
  open_mailbox();
  offer.there = 1;
  offer.way = way_;
  offer.ordinal = gpu_->ordinal();
  offer.address = cuda_address(own_.get());
  offer.bytes = kWindowMemory;
  offer.handle = handle_;
  offer.wants = any_peer_is(State::kWanted) ? 1 : 0;
  if (mailbox_) offer.mailbox = mailbox_->name();
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    const Peer& peer = peers_[rank];
    const bool has = peer.state == State::kMapped && peer.way == WindowWay::kDescriptor;
    offer.has = static_cast<uint16_t>(offer.has | (has ? 1U << rank : 0U));
  }
  if (!has_buffers || !is_ready()) return offer;
  const Place* const place = take_place(call);
  if (place == nullptr) return offer;
  offer.ready = 1;
  offer.place = static_cast<uint8_t>(place - places_.data());
  return offer;
}

// It is there as long as a descriptor may come.
void Windows::open_mailbox() {
  if (!any_peer_is(State::kWanted) && !any_peer_is(State::kAwaited)) {
    mailbox_.reset();
    letters_.clear();
    return;
  }
  if (mailbox_) return;
  Result<Mailbox> opened = Mailbox::open();
  if (opened.ok()) {
    mailbox_ = std::move(*opened);
    return;
  }
  for (size_t rank = 0; rank < peers_.size(); ++rank)
    if (peers_[rank].state == State::kWanted || peers_[rank].state == State::kAwaited)
      refuse(rank, opened.status());
}

// A letter may come before the offer that says whose it is.
void Windows::read_mail() {
  if (!mailbox_) return;
  for (size_t taken = 0; taken < 4 * size_t{kMostWindows}; ++taken) {
    std::optional<Mailbox::Letter> letter = mailbox_->take();
    if (!letter) return;
    if (letters_.size() == kMostWindows) letters_.erase(letters_.begin());
    letters_.push_back(std::move(*letter));
  }
}

void Windows::send_ours(size_t rank, const MailboxName& to) {
  Peer& peer = peers_[rank];
  if (to == MailboxName{} || to == peer.sent_to || !descriptor_.valid()) return;
  MailToken token{};
  std::memcpy(token.data(), &handle_, sizeof handle_);
  const Status sent = send_descriptor(to, token, descriptor_);
  if (sent.code() == Code::kBusy) return;
  peer.sent_to = to;
  if (!sent.ok())
    say_why_not({sent.code(), fmt::format("rank {} gets no descriptor of the window of rank {}: {}",
                                          rank, rank_, sent.message())});
}

// The owner may have ended its communicator meanwhile.
Result<SharedWindow> Windows::map_in_process(const WindowOffer& offer) const {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): it is compared, and not used
  const auto* address = reinterpret_cast<const void*>(offer.address);
  SharedWindow found = process().share(name_of_window(offer.handle, address),
                                       [] { return std::shared_ptr<void>(); });
  if (found == nullptr) return Status(Code::kCuda, "the window is gone");
  if (offer.ordinal == gpu_->ordinal()) return found;
  if (offer.way == WindowWay::kDescriptor) {
    BANYAN_TRY(open_window_to(cuda_, found.get(), kWindowMemory, gpu_->ordinal()));
    return found;
  }
  if (cuda_.enable_peer == nullptr)
    return Status(Code::kUnsupported, "the CUDA driver lacks cuCtxEnablePeerAccess");
  PrimaryContext theirs(cuda_);
  BANYAN_TRY(theirs.retain(offer.ordinal));
  const int enabled = cuda_.enable_peer(theirs.get(), 0);
  if (enabled != kPeerAccessIsEnabled)
    BANYAN_TRY(cuda_status(cuda_, enabled, "cuCtxEnablePeerAccess"));
  return found;
}

// Null: it has not come yet.
Result<SharedWindow> Windows::import(const WindowOffer& offer) {
  const auto letter = std::find_if(letters_.begin(), letters_.end(), [&](const auto& come) {
    return std::memcmp(come.token.data(), &offer.handle, sizeof offer.handle) == 0;
  });
  if (letter == letters_.end()) return SharedWindow();
  const Mailbox::Letter mine = std::move(*letter);
  letters_.erase(letter);
  if (mine.descriptor.valid()) return import_window(cuda_, *gpu_, mine.descriptor, kWindowMemory);
  return Status(Code::kSystem,
                "its descriptor could not be received: the limit of open files (ulimit -n) is too "
                "low, or a security policy forbids it");
}

void Windows::refuse(size_t rank, const Status& why) {
  Peer& peer = peers_[rank];
  const bool after_a_handle =
      !why_wanted_.empty() && (peer.state == State::kWanted || peer.way == WindowWay::kDescriptor);
  peer.state = State::kRefused;
  say_why_not({Code::kCuda, fmt::format("the window of rank {} cannot be mapped: {}{}{}", rank,
                                        after_a_handle ? why_wanted_ : "",
                                        after_a_handle ? "; " : "", why.message())});
}

// False: nothing is to be done about it. A window goes from a handle to a descriptor once, and
// changes in no other way.
bool Windows::is_news(size_t rank, const WindowOffer& offer) {
  Peer& peer = peers_[rank];
  if (peer.state == State::kUnknown) {
    peer.handle = offer.handle;
    peer.way = offer.way;
    return true;
  }
  if (peer.state == State::kRefused) return false;
  if (is_same_handle(peer.handle, offer.handle)) {
    if (peer.state == State::kWanted && offer.way == WindowWay::kHandleOnly)
      refuse(rank, {Code::kUnsupported, "its owner has no descriptor of it"});
    return peer.state == State::kAwaited;
  }
  if (peer.way == WindowWay::kDescriptor || offer.way != WindowWay::kDescriptor) return false;
  if (peer.memory != nullptr) others_before_.push_back(std::move(peer.memory));
  peer.memory = nullptr;
  peer.state = State::kAwaited;
  peer.handle = offer.handle;
  peer.way = offer.way;
  return true;
}

void Windows::map(size_t rank, const WindowOffer& offer) {
  if (!is_news(rank, offer)) return;
  Peer& peer = peers_[rank];
  const CurrentContext current = gpu_->make_current();
  const bool by_descriptor = offer.way == WindowWay::kDescriptor;
  Result<SharedWindow> mapped = in_process_[rank] ? map_in_process(offer)
                                : by_descriptor
                                    ? import(offer)
                                    : borrow_window(cuda_, *gpu_, offer.handle, kWindowMemory);
  if (mapped.ok()) {
    peer.memory = std::move(*mapped);
    peer.state = peer.memory != nullptr ? State::kMapped : State::kAwaited;
    return;
  }
  const Status can_import = check_descriptors(cuda_);
  const bool may_do_otherwise = !in_process_[rank] && offer.way == WindowWay::kHandle &&
                                mapped.status().code() == Code::kCuda;
  if (!may_do_otherwise) return refuse(rank, mapped.status());
  if (why_wanted_.empty()) why_wanted_ = mapped.status().message();
  peer.state = State::kWanted;
  if (!can_import.ok()) refuse(rank, can_import);
}

void Windows::hear(size_t rank, const WindowOffer& offer) {
  Peer& peer = peers_[rank];
  if (offer.wants == 1 && !in_process_[rank] && why_anew_.empty())
    why_anew_ = fmt::format("rank {} cannot open the handle of a window", rank);
  if (way_ == WindowWay::kDescriptor && (offer.has >> rank_ & 1) != 0) peer.has_ours = true;
  if (way_ == WindowWay::kDescriptor && !in_process_[rank] && !peer.has_ours)
    send_ours(rank, offer.mailbox);
  map(rank, offer);
}

WindowOffer Windows::offer_in(std::span<const std::byte> offers, size_t rank) const {
  WindowOffer offer;
  std::memcpy(&offer, &offers[rank * (offers.size() / peers_.size())], sizeof offer);
  return offer;
}

bool Windows::decide_delegates(uint64_t call, std::span<const std::byte> offers) {
  if (gpu_ == nullptr) return false;
  Place* const place = find(call);
  std::vector<NcclOffer> said(peers_.size());
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    const WindowOffer offer = offer_in(offers, rank);
    if (offer.magic == kMagic && offer.nccl.word <= NcclWord::kNever) said[rank] = offer.nccl;
    if (place != nullptr) place->scalars[rank] = offer.scalar;
  }
  const CurrentContext current = gpu_->make_current();
  return nccl_.decide(call, said);
}

Branch Windows::decide(uint64_t call, std::span<const std::byte> offers, bool delegates,
                       bool fits) {
  if (delegates) {
    if (decide_delegates(call, offers)) {
      ++calls_;
      return Branch::kPeers;
    }
    withdraw(call);
    return Branch::kOtherwise;
  }
  bool all_ready = fits;
  Place* const place = find(call);
  read_mail();
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    const WindowOffer offer = offer_in(offers, rank);
    const bool whole = offer.magic == kMagic && offer.there == 1 && offer.place < kPlaces &&
                       offer.way <= WindowWay::kHandleOnly && offer.bytes == kWindowMemory;
    all_ready = all_ready && whole && offer.ready == 1;
    if (place != nullptr) place->scalars[rank] = offer.scalar;
    if (rank == rank_ || lent_ != Lent::kYes || !whole) continue;
    hear(rank, offer);
    if (place != nullptr && peers_[rank].memory != nullptr)
      place->windows[rank] =
          static_cast<std::byte*>(peers_[rank].memory.get()) + offer.place * kWindowBytes;
  }
  if (all_have_ours()) descriptor_.close();
  if (all_ready) {
    ++calls_;
    if (!std::exchange(goes_, true)) say_how();
    return Branch::kPeers;
  }
  withdraw(call);
  return Branch::kOtherwise;
}

std::byte* Windows::of(uint64_t call, int rank) const {
  const Place* const place = find(call);
  return place == nullptr ? nullptr : place->windows[static_cast<size_t>(rank)];
}

std::span<const CudaScalar> Windows::scalars(uint64_t call) const {
  const Place* const place = find(call);
  return place == nullptr ? std::span<const CudaScalar>() : place->scalars;
}

void Windows::withdraw(uint64_t call) {
  nccl_.withdraw(call);
  if (Place* place = find(call); place != nullptr) place->taken = false;
}

void Windows::withdraw_all() {
  for (Place& place : places_) place.taken = false;
}

void Windows::leave_others() {
  if (gpu_ != nullptr) {
    const CurrentContext current = gpu_->make_current();
    nccl_.leave();
  }
  for (Peer& peer : peers_) peer = {};
  others_before_.clear();
  mailbox_.reset();
  letters_.clear();
}

}  // namespace banyan
