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
constexpr unsigned kEnablePeerAccess = 1;  // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
constexpr int kPeerAccessIsEnabled = 704;  // CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED

std::byte* pointer_to(CudaFunctions::Address address) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver has given it as a number
  return reinterpret_cast<std::byte*>(address);
}

// By which ranks of one process find a window.
std::string name_of_window(const CudaIpcHandle& handle, CudaFunctions::Address address) {
  return fmt::format("GPU window {} ", address) +
         std::string(reinterpret_cast<const char*>(handle.bytes), sizeof handle);
}

// Memory in a device's primary context, until the last who uses it is gone.
struct HeldMemory {
  explicit HeldMemory(const CudaFunctions& functions) : cuda(functions), context(cuda) {}
  HeldMemory(const HeldMemory&) = delete;
  HeldMemory& operator=(const HeldMemory&) = delete;
  ~HeldMemory() {
    if (address == 0) return;
    const CurrentContext current(cuda, context.get());
    (void)(borrowed ? cuda.return_borrowed : cuda.free)(address);
  }

  const CudaFunctions cuda;
  PrimaryContext context;
  CudaFunctions::Address address = 0;
  bool borrowed = false;
};

Result<std::shared_ptr<HeldMemory>> memory_on(const CudaFunctions& cuda, const OpenGpu& gpu) {
  auto memory = std::make_shared<HeldMemory>(cuda);
  BANYAN_TRY(memory->context.retain(gpu.ordinal()));
  return memory;
}

// It lasts as long as that, and is the pointer.
std::shared_ptr<void> as_pointer(const std::shared_ptr<HeldMemory>& memory) {
  return {memory, pointer_to(memory->address)};
}

Status check_functions(const CudaFunctions& cuda) {
  if (cuda.lend == nullptr || cuda.borrow == nullptr || cuda.return_borrowed == nullptr ||
      cuda.enable_peer == nullptr)
    return {Code::kUnsupported, "the CUDA driver of this process lends no memory"};
  return {};
}

// What a peer lends may be shorter than it says.
Status check_length(const CudaFunctions& cuda, CudaFunctions::Address address, uint64_t bytes) {
  constexpr int kRangeStart = 11, kRangeSize = 12;  // CUpointer_attribute
  uint64_t start = 0, size = 0;
  BANYAN_TRY(cuda_status(cuda, cuda.pointer_attribute(&start, kRangeStart, address),
                         "cuPointerGetAttribute"));
  BANYAN_TRY(cuda_status(cuda, cuda.pointer_attribute(&size, kRangeSize, address),
                         "cuPointerGetAttribute"));
  const bool holds = start <= address && size >= bytes && address - start <= size - bytes;
  if (holds) return {};
  return {Code::kCuda, fmt::format("it has {} bytes, and a window has {}", size, bytes)};
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

Status Windows::make(OpenGpu& gpu) {
  if (cuda_.allocate == nullptr || cuda_.free == nullptr)
    return {Code::kUnsupported, "the CUDA driver of this process gives no memory"};
  if (gpu.kernels() == nullptr)
    return {Code::kUnsupported, "this build or the driver has no kernels for the GPU"};
  Result<std::shared_ptr<HeldMemory>> memory = memory_on(cuda_, gpu);
  BANYAN_TRY(memory.status());
  HeldMemory& held = **memory;
  const CurrentContext current(cuda_, held.context.get());
  BANYAN_TRY(
      cuda_status(cuda_, cuda_.allocate(&held.address, kPlaces * kWindowBytes), "cuMemAlloc"));
  own_ = as_pointer(*memory);
  return {};
}

// From now on others may find it.
Status Windows::lend() {
  BANYAN_TRY(check_functions(cuda_));
  const CurrentContext current = gpu_->make_current();
  const CudaFunctions::Address address = cuda_address(own_.get());
  BANYAN_TRY(cuda_status(cuda_, cuda_.lend(&handle_, address), "cuIpcGetMemHandle"));
  own_ = process().share(name_of_window(handle_, address), [&] { return own_; });
  return {};
}

bool Windows::is_lent() {
  if (gpu_ == nullptr || own_ == nullptr) return false;
  if (lent_ != Lent::kNotYet) return lent_ == Lent::kYes;
  const Status lent = lend();
  lent_ = lent.ok() ? Lent::kYes : Lent::kRefused;
  if (!lent.ok()) say_why_not(lent);
  return lent.ok();
}

void Windows::have(OpenGpu& gpu) {
  if (gpu_ != nullptr) return;
  gpu_ = &gpu;
  if (const Status made = make(gpu); !made.ok()) {
    own_.reset();
    say_why_not(made);
  }
}

bool Windows::maps_all() const {
  for (size_t rank = 0; rank < peers_.size(); ++rank)
    if (rank != rank_ && peers_[rank].memory == nullptr) return false;
  return true;
}

Windows::Place* Windows::find(uint64_t call) {
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
    Place* const place = has_buffers ? take_place(call) : nullptr;
    offer.nccl = nccl_.offer(call, place != nullptr);
    return offer;
  }
  if (gpu_ == nullptr || !is_lent()) return offer;
  offer.there = 1;
  offer.ordinal = gpu_->ordinal();
  offer.address = cuda_address(own_.get());
  offer.bytes = kPlaces * kWindowBytes;
  offer.handle = handle_;
  if (!has_buffers || !maps_all()) return offer;
  const Place* const place = take_place(call);
  if (place == nullptr) return offer;
  offer.ready = 1;
  offer.place = static_cast<uint8_t>(place - places_.data());
  return offer;
}

// The owner may have ended its communicator meanwhile.
Result<Windows::Mapped> Windows::map_in_process(const WindowOffer& offer) const {
  Mapped found = process().share(name_of_window(offer.handle, offer.address),
                                 [] { return std::shared_ptr<void>(); });
  if (found == nullptr) return Status(Code::kCuda, "the window is gone");
  if (offer.ordinal == gpu_->ordinal()) return found;
  PrimaryContext theirs(cuda_);
  BANYAN_TRY(theirs.retain(offer.ordinal));
  const int enabled = cuda_.enable_peer(theirs.get(), 0);
  if (enabled != kPeerAccessIsEnabled)
    BANYAN_TRY(cuda_status(cuda_, enabled, "cuCtxEnablePeerAccess"));
  return found;
}

Result<Windows::Mapped> Windows::borrow(const WindowOffer& offer) const {
  Result<std::shared_ptr<HeldMemory>> memory = memory_on(cuda_, *gpu_);
  BANYAN_TRY(memory.status());
  HeldMemory& held = **memory;
  BANYAN_TRY(cuda_status(cuda_, cuda_.borrow(&held.address, offer.handle, kEnablePeerAccess),
                         "cuIpcOpenMemHandle"));
  held.borrowed = true;
  BANYAN_TRY(check_length(cuda_, held.address, kPlaces * kWindowBytes));
  return as_pointer(*memory);
}

void Windows::map(size_t rank, const WindowOffer& offer) {
  Peer& peer = peers_[rank];
  const bool known = std::memcmp(&peer.handle, &offer.handle, sizeof offer.handle) == 0;
  if (known && (peer.refused || peer.memory != nullptr)) return;
  peer = {.handle = offer.handle};
  const CurrentContext current = gpu_->make_current();
  Result<Mapped> mapped = in_process_[rank] ? map_in_process(offer) : borrow(offer);
  if (mapped.ok()) {
    peer.memory = std::move(*mapped);
    return;
  }
  peer.refused = true;
  say_why_not({Code::kCuda, fmt::format("the window of rank {} cannot be mapped: {}", rank,
                                        mapped.status().message())});
}

bool Windows::decide_delegates(uint64_t call, std::span<const std::byte> offers) {
  if (gpu_ == nullptr) return false;
  std::vector<NcclOffer> said(peers_.size());
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    WindowOffer offer;
    std::memcpy(&offer, &offers[rank * kOfferBytes], sizeof offer);
    if (offer.magic == kMagic && offer.nccl.word <= NcclWord::kNever) said[rank] = offer.nccl;
  }
  const CurrentContext current = gpu_->make_current();
  return nccl_.decide(call, said);
}

Branch Windows::decide(uint64_t call, std::span<const std::byte> offers, bool delegates) {
  if (delegates) {
    if (decide_delegates(call, offers)) {
      ++calls_;
      return Branch::kPeers;
    }
    withdraw(call);
    return Branch::kOtherwise;
  }
  bool all_ready = true;
  Place* const place = find(call);
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    WindowOffer offer;
    std::memcpy(&offer, &offers[rank * kOfferBytes], sizeof offer);
    const bool whole = offer.magic == kMagic && offer.there == 1 && offer.place < kPlaces &&
                       offer.bytes == kPlaces * kWindowBytes;
    all_ready = all_ready && whole && offer.ready == 1;
    if (rank == rank_ || own_ == nullptr || !whole) continue;
    map(rank, offer);
    if (place != nullptr && peers_[rank].memory != nullptr)
      place->windows[rank] =
          static_cast<std::byte*>(peers_[rank].memory.get()) + offer.place * kWindowBytes;
  }
  if (all_ready) {
    ++calls_;
    if (!std::exchange(goes_, true))
      news_ = "from this call on, ranks read each other's memory of GPUs";
    return Branch::kPeers;
  }
  withdraw(call);
  return Branch::kOtherwise;
}

std::byte* Windows::of(uint64_t call, int rank) const {
  for (const Place& place : places_)
    if (place.taken && place.call == call) return place.windows[static_cast<size_t>(rank)];
  return nullptr;
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
}

}  // namespace banyan
