// SPDX-License-Identifier: Apache-2.0

#include "src/base/process.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <new>
#include <thread>

namespace banyan {

HandleTable::~HandleTable() {
  for (const std::atomic<Place*>& block : blocks_) delete[] block.load();
}

HandleTable::Place* HandleTable::place_of(uint64_t handle) const {
  const auto index = static_cast<uint32_t>(handle);
  if (index == 0 || index > kBlocks * kBlockPlaces) return nullptr;
  Place* block = blocks_[(index - 1) / kBlockPlaces].load(std::memory_order_acquire);
  if (block == nullptr) return nullptr;
  Place& place = block[(index - 1) % kBlockPlaces];
  const auto generation = static_cast<uint32_t>(handle >> 32);
  const bool current = place.generation.load(std::memory_order_acquire) == generation;
  return current && generation % 2 == 0 ? &place : nullptr;
}

uint64_t HandleTable::insert(void* object) {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    if (used_ == kBlocks * kBlockPlaces) return 0;
    if (used_ % kBlockPlaces == 0)
      blocks_[used_ / kBlockPlaces].store(new Place[kBlockPlaces], std::memory_order_release);
    free_.push_back(++used_);
  }
  const uint32_t index = free_.back();
  free_.pop_back();
  Place& place = blocks_[(index - 1) / kBlockPlaces].load()[(index - 1) % kBlockPlaces];
  place.object.store(object, std::memory_order_release);
  const uint32_t generation = place.generation.fetch_add(1) + 1;
  return uint64_t{generation} << 32 | index;
}

void* HandleTable::find(uint64_t handle) const {
  const Place* place = place_of(handle);
  return place == nullptr ? nullptr : place->object.load(std::memory_order_acquire);
}

HandleTable::Pin HandleTable::pin(uint64_t handle) {
  Place* place = place_of(handle);
  if (place == nullptr) return {};
  // Announce first, then look again: remove() makes the generation odd first, then waits for pins.
  place->pins.fetch_add(1);
  if (place->generation.load() == static_cast<uint32_t>(handle >> 32))
    return {place, place->object.load(std::memory_order_acquire)};
  place->pins.fetch_sub(1);
  return {};
}

HandleTable::Visit HandleTable::visit(uint64_t handle) {
  Place* place = place_of(handle);
  if (place == nullptr) return {nullptr, nullptr};
  place->visited.exchange(true);  // announced first, as a pin
  if (place->generation.load() == static_cast<uint32_t>(handle >> 32))
    return {place, place->object.load(std::memory_order_acquire)};
  place->visited.store(false);
  return {nullptr, nullptr};
}

bool HandleTable::wait_for_pins(uint64_t handle, uint32_t left, TimePoint deadline) const {
  constexpr auto kPause = std::chrono::microseconds(100);
  const Place* place = place_of(handle);
  while (place != nullptr && (place->pins.load() > left || place->visited.load())) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(
        kPause);  // whoever leaves has no time to ring: that is its hot path
  }
  return true;
}

void* HandleTable::remove(uint64_t handle) {
  Place* place = place_of(handle);
  if (place == nullptr) return nullptr;
  void* object = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (place_of(handle) != place) return nullptr;
    object = place->object.load();
    place->generation.fetch_add(1);
  }
  while (place->pins.load() != 0 || place->visited.load()) sched_yield();
  const std::lock_guard lock(mutex_);
  free_.push_back(static_cast<uint32_t>(handle));
  return object;
}

Incarnation::Incarnation() {
  const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* page = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (madvise(page, size, MADV_WIPEONFORK) != 0) {
    munmap(page, size);
    return;
  }
  page_ = new (page) std::atomic<uint32_t>(1);
}

uint32_t Incarnation::now() {
  uint32_t seen = page_->load(std::memory_order_relaxed);
  if (seen != 0) return seen;
  const uint32_t next = latest_.fetch_add(1) + 1;
  return page_->compare_exchange_strong(seen, next) ? next : seen;
}

ProcessState::ProcessState() {
  const auto before = [] {
    process().inside_libcrypto.lock();
    process().sockets.mutex.lock();
  };
  const auto after = [] {
    process().sockets.mutex.unlock();
    process().inside_libcrypto.unlock();
  };
  const auto in_child = [] {
    process().sockets.give_up_in_child();
    new (&process().meeting) std::binary_semaphore(1);  // another thread may be in it, there
    process().sockets.mutex.unlock();
    process().inside_libcrypto.unlock();
  };
  // It fails without memory only; then a child is to leave the library alone.
  (void)pthread_atfork(before, after, in_child);
}

bool ProcessState::first_time(const std::string& what) {
  const std::lock_guard lock(mutex_);
  return said_.insert(what).second;
}

std::shared_ptr<void> ProcessState::share(const std::string& key,
                                          const std::function<std::shared_ptr<void>()>& make) {
  const std::lock_guard lock(mutex_);
  std::erase_if(shared_, [](const auto& entry) { return entry.second.expired(); });
  if (auto found = shared_[key].lock()) return found;
  std::shared_ptr<void> made = make();
  shared_[key] = made;
  return made;
}

ProcessState& process() {
  static ProcessState* const state = new ProcessState;
  return *state;
}

namespace {

// The first use of something static has a lock, for which a child that is forked meanwhile would
// wait for ever: so that is over before there are threads.
[[maybe_unused]] const ProcessState& made_with_the_library = process();

}  // namespace

}  // namespace banyan
