// What the stand-in remembers: devices with their contexts, memory, handles; and what each of its
// functions does first. It is never destroyed, because threads may use it until the program's end.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/cuda/driver/memory.h"
#include "tests/cuda/driver/results.h"
#include "tests/cuda/driver/streams.h"
#include "tests/cuda/driver/tallies.h"
#include "tests/support/host_kernels.h"

namespace banyan::standin {

struct Submitted {
  int result = kSuccess;
  Mark mark{};
  bool captured = false;  // it is done when the graph is launched
};

// The primary context of a device. It is there from cuInit on, and active while it is retained.
class Context {
 public:
  explicit Context(int device) : device_(device) {}

  int device() const { return device_; }
  CuHandle handle() const;
  bool active() const { return users_ > 0; }
  int broken() const { return broken_.load(std::memory_order_acquire); }
  // An error makes an end of all work that was submitted before; kSuccess mends it.
  void break_with(int error);
  int breaks() const { return breaks_.load(std::memory_order_acquire); }

  void retain();
  bool release();  // false: nobody has it
  void reset();    // ends all that it has

  SharedStream legacy() const;
  SharedStream add_stream(StreamOrder order, int priority);
  void forget(const Stream& stream);  // its thread has ended
  // Submits what comes after all that the order of streams says.
  Mark submit(Stream& stream, Work work, std::vector<Mark> after = {});
  bool synchronize();  // false: the program ends
  bool blocking_streams_are_done() const;
  bool works() const;  // one of its streams does, just now

  void allow_peer(int device, bool allowed);
  bool allows_peer(int device) const;

 private:
  std::vector<Mark> marks_of(bool blocking_only) const;

  const int device_;
  std::atomic<int> users_{0};
  std::atomic<int> broken_{kSuccess};
  std::atomic<int> breaks_{0};
  mutable std::shared_mutex mutex_;
  SharedStream legacy_;
  std::vector<SharedStream> streams_;  // with those that are destroyed and have work
  std::set<int> peers_;
};

struct EventRecord {
  Mark mark{};
  std::chrono::steady_clock::time_point at{};  // valid once the mark is reached
  std::shared_ptr<Capture> capture{};
  std::vector<size_t> tail{};
};

struct Event {
  Event(Context& of, unsigned its_flags) : context(of), flags(its_flags) {}

  std::shared_ptr<EventRecord> last() const {
    const std::lock_guard lock(mutex);
    return record;
  }

  Context& context;
  const unsigned flags;
  mutable std::mutex mutex;
  std::shared_ptr<EventRecord> record{};  // null: never recorded
};

struct LoadedModule {
  Context& context;
};

// A kernel of a module.
struct LoadedFunction {
  std::shared_ptr<LoadedModule> module;
  const test::HostKernel* kernel;
};

struct CaptureNode {
  Work work;
  std::vector<size_t> after;  // earlier ones
};

// As it was captured, or instantiated.
struct CapturedGraph {
  CapturedGraph(Context& of, std::vector<CaptureNode> its_nodes)
      : context(of), nodes(std::move(its_nodes)) {}

  Context& context;
  const std::vector<CaptureNode> nodes;
  std::mutex mutex;
  Mark last{};  // launch
};

// Handles that are never given twice, so that those of what has ended are known as such.
template <typename T>
class HandleTable {
 public:
  explicit HandleTable(uintptr_t sort) : base_(0xcada'0000'0000'0000 + (sort << 40)) {}

  CuHandle add(std::shared_ptr<T> object) {
    const std::unique_lock lock(mutex_);
    const uintptr_t number = base_ + (++given_ << 4);
    objects_[number] = std::move(object);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): nothing is there
    return reinterpret_cast<CuHandle>(number);
  }
  std::shared_ptr<T> find(CuHandle handle) const {
    const std::shared_lock lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<uintptr_t>(handle));
    return found == objects_.end() ? nullptr : found->second;
  }
  std::shared_ptr<T> take(CuHandle handle) {
    const std::unique_lock lock(mutex_);
    auto node = objects_.extract(reinterpret_cast<uintptr_t>(handle));
    return node.empty() ? nullptr : std::move(node.mapped());
  }
  template <typename Condition>
  std::vector<std::shared_ptr<T>> take_all(const Condition& condition) {
    std::vector<std::shared_ptr<T>> taken;
    const std::unique_lock lock(mutex_);
    for (auto at = objects_.begin(); at != objects_.end();) {
      if (!condition(*at->second)) {
        ++at;
        continue;
      }
      taken.push_back(std::move(at->second));
      at = objects_.erase(at);
    }
    return taken;
  }
  size_t size() const {
    const std::shared_lock lock(mutex_);
    return objects_.size();
  }

 private:
  const uintptr_t base_;
  mutable std::shared_mutex mutex_;
  uintptr_t given_ = 0;
  std::unordered_map<uintptr_t, std::shared_ptr<T>> objects_;
};

struct State {
  std::vector<std::unique_ptr<Context>> contexts{};  // by device; they stay
  MemoryTable memory{};
  HandleTable<Stream> streams{1};
  HandleTable<Event> events{2};
  HandleTable<LoadedModule> modules{3};
  HandleTable<LoadedFunction> functions{4};
  HandleTable<CapturedGraph> graphs{5};
  HandleTable<CapturedGraph> executables{6};
};
State& state();

// What each thread has for itself.
struct ThreadState {
  std::vector<Context*> stack{};  // the current context is at its end
  bool calls_host_function = false;
  int capture_mode = 0;  // CUstreamCaptureMode
  std::vector<SharedStream> default_streams{};
};
ThreadState& thread_state();

// The streams' clocks.
uint_fast32_t next_seed();
int most_delay_us();
void set_seed(uint64_t value);
void set_most_delay_us(int us);

// The program ends: no work is begun any more.
bool is_ending();
[[noreturn]] void sleep_for_ever();
int initialize();
// What every function but cuInit does first.
int begin_call(const char* function);
Context* context_of(CuHandle handle);
// The current one; or why there is none that can be used.
struct CurrentContext {
  int result = kSuccess;
  Context* context = nullptr;
};
CurrentContext current_context();
// kSuccess, or what whoever uses it is told.
int usable(const Context& context);

struct FoundStream {
  int result = kSuccess;
  SharedStream stream{};
};
// Null and 1 are the legacy stream of the current context, 2 is the thread's own there.
FoundStream find_stream(Context& current, CuHandle handle);

// body() -> int
template <typename Body>
int call(const char* function, const Body& body) {
  const int result = begin_call(function);
  return result != kSuccess ? result : body();
}

// body(Context&) -> int
template <typename Body>
int call_in_context(const char* function, const Body& body) {
  const int result = begin_call(function);
  if (result != kSuccess) return result;
  const CurrentContext current = current_context();
  return current.result != kSuccess ? current.result : body(*current.context);
}

// The same for what CUDA calls potentially unsafe while a stream captures.
int refuse_unsafe();
template <typename Body>
int unsafe_call(const char* function, const Body& body) {
  return call_in_context(function, [&](Context& context) -> int {
    const int refused = refuse_unsafe();
    return refused != kSuccess ? refused : body(context);
  });
}

// body(Context&, const SharedStream&) -> int
template <typename Body>
int call_on_stream(const char* function, CuHandle handle, const Body& body) {
  return call_in_context(function, [&](Context& context) {
    const FoundStream found = find_stream(context, handle);
    return found.result != kSuccess ? found.result : body(context, found.stream);
  });
}

}  // namespace banyan::standin
