// What the stand-in has: devices with a context each, their streams, their memory, and the faults
// that tests have asked for. It lives as long as the process.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/cuda/driver/memory.h"
#include "tests/cuda/driver/stream.h"

namespace banyan::standin {

// CUresult, as far as it is needed.
enum Result : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kInvalidHandle = 400,
  kNotReady = 600,
  kAlreadyRegistered = 712,
  kNotRegistered = 713,
  kNotPermitted = 800,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureImplicit = 906,
};

struct Context {
  int device = 0;
  std::shared_ptr<Stream> legacy;
  std::set<std::shared_ptr<Stream>> streams;  // all others
};

// The contexts that a thread has pushed; the last is current. It is plain memory, since the memory
// of threads with destructors, in a library that was opened, looks to the thread sanitizer like a
// race of the loader.
class ContextStack {
 public:
  bool empty() const { return depth_ == 0; }
  Context* back() const { return contexts_[depth_ - 1]; }
  void push_back(Context* context) { contexts_.at(depth_++) = context; }
  void pop_back() { --depth_; }

 private:
  std::array<Context*, 16> contexts_;
  size_t depth_;
};

class Machine {
 public:
  static Machine& the();

  Memory memory;

  int devices() const { return static_cast<int>(contexts_.size()); }
  Context* context(int device) { return &contexts_[static_cast<size_t>(device)]; }
  static ContextStack& current();  // of this thread

  // Every function of the driver begins with this: what it returns at once, or kSuccess.
  int enter(std::string_view function);
  void fail(std::string_view function, int after, int error);
  long calls(std::string_view function);
  std::atomic<int> broken{kSuccess};

  std::shared_ptr<Stream> make_stream(Context& context, bool ordered);
  bool destroy_stream(void* handle);
  // Null handles are the legacy stream of the current context. Null: there is none.
  std::shared_ptr<Stream> stream(void* handle);
  // A copy or the like in the order of that stream: into its capture, if it has one.
  void submit(Stream& stream, Work work,
              std::vector<std::pair<std::shared_ptr<Progress>, uint64_t>> after = {});
  // Waits for all that was enqueued in a context.
  void finish(Context& context);
  bool any_capture();

 private:
  Machine();
  struct Fault {
    int after = 0;
    int error = 0;
    long calls = 0;
  };

  std::vector<Context> contexts_;
  std::mutex mutex_;  // of what follows, and of the contexts' streams
  std::map<std::string, Fault, std::less<>> faults_;
  unsigned next_seed_ = 1;
};

}  // namespace banyan::standin
