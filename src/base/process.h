// The library has one process-wide state: handles that are recognised after their object is gone,
// what ranks that are threads share, what is said once, and what a child of fork() must not inherit
// as it is.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <semaphore>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "src/base/own_sockets.h"

namespace banyan {

// Maps handles to objects. A handle is a place and a generation, never an address, so a destroyed
// or invented one is looked up and not found. Places live in blocks that stay until the table goes.
// Looking up takes no lock.
class HandleTable {
  struct Place;

 public:
  // Holds an object: remove() waits until it is gone.
  class Pin {
   public:
    Pin() = default;
    Pin(Pin&& other) noexcept
        : place_(std::exchange(other.place_, nullptr)),
          object_(std::exchange(other.object_, nullptr)) {}
    Pin& operator=(Pin&& other) noexcept {
      std::swap(place_, other.place_);
      std::swap(object_, other.object_);
      return *this;
    }
    ~Pin() {
      if (place_ != nullptr) place_->pins.fetch_sub(1);
    }
    void* get() const { return object_; }

   private:
    friend class HandleTable;
    Pin(Place* place, void* object) : place_(place), object_(object) {}

    Place* place_ = nullptr;
    void* object_ = nullptr;
  };

  // Does what a pin does for half its price, for calls that one thread at a time may make. Where
  // two threads do, the object is held until one of them is out.
  class Visit {
   public:
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    ~Visit() {
      if (object_ != nullptr) place_->visited.store(false, std::memory_order_release);
    }
    void* get() const { return object_; }

   private:
    friend class HandleTable;
    Visit(Place* place, void* object) : place_(place), object_(object) {}

    Place* place_;
    void* object_;
  };

  HandleTable() = default;
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;
  ~HandleTable();

  // Never 0.
  uint64_t insert(void* object);
  // Null: destroyed, or never a handle. Whoever may race with remove() uses pin() instead.
  void* find(uint64_t handle) const;
  // As find(), for the time of the pin.
  Pin pin(uint64_t handle);
  Visit visit(uint64_t handle);
  // Waits until so many pins are left, or fewer, and no visit. False: not so at the deadline.
  bool wait_for_pins(uint64_t handle, uint32_t left, TimePoint deadline) const;
  // Null if it was gone already. From then on the handle is stale.
  void* remove(uint64_t handle);

 private:
  struct Place {
    std::atomic<uint32_t> generation{1};  // odd: free, even: in use
    std::atomic<uint32_t> pins{0};
    std::atomic<bool> visited{false};
    std::atomic<void*> object{nullptr};
  };
  static constexpr uint32_t kBlockPlaces = 256;
  static constexpr uint32_t kBlocks = 4096;

  Place* place_of(uint64_t handle) const;

  std::array<std::atomic<Place*>, kBlocks> blocks_{};
  std::mutex mutex_;  // of insertion and removal
  std::vector<uint32_t> free_;
  uint32_t used_ = 0;
};

// Tells a child made by fork() from its parent, without a call to the kernel: a page that the
// kernel clears in children (MADV_WIPEONFORK; where there is none, nobody is told apart).
class Incarnation {
 public:
  Incarnation();
  // Never 0; another one in every child.
  uint32_t now();

 private:
  std::atomic<uint32_t> here_{1};
  std::atomic<uint32_t> latest_{1};
  std::atomic<uint32_t>* page_ = &here_;
};

struct ProcessState {
  // From then on both mutexes below are held during every fork.
  ProcessState();

  HandleTable communicators;
  HandleTable requests;
  HandleTable reducers;

  // What was made in another one belongs to a parent of this process.
  Incarnation incarnation;

  // libcrypto has locks of its own, and a child inherits those that other threads hold, for ever:
  // so none of ours is inside while the process forks.
  std::mutex inside_libcrypto;
  SocketRegistry sockets;

  // Counts the calls of banyan_comm_init_env. They meet others one after the other: ranks know them
  // apart by their order alone, and a later one means that those before have ended.
  std::atomic<int> meetings{0};
  std::binary_semaphore meeting{1};
  // The keys of the launcher that speaks PMI-1 live here, once this process has greeted it: it may
  // take no second greeting.
  std::string pmi_space;
  // The launcher was asked something whose answer may still come.
  std::atomic<bool> launcher_unanswered{false};
  // Communicators that this process has begun to make.
  std::atomic<uint32_t> communicators_begun{0};
  // Unknown variables were reported.
  std::atomic<bool> variables_reported{false};

  // Tells whether this process is asked for the first time: for what is to be said once.
  bool first_time(const std::string& what);

  // A handle that no operation of this process had before (until 2^31 of them were made).
  int next_operation() { return operations_.fetch_add(1); }

  // The object of that key, while anybody holds it.
  std::shared_ptr<void> share(const std::string& key,
                              const std::function<std::shared_ptr<void>()>& make);

 private:
  std::atomic<int> operations_{1 << 24};
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<void>> shared_;
  std::set<std::string> said_;
};

// Made with the library and never destroyed, so that threads which outlive main() find it.
ProcessState& process();

}  // namespace banyan
