// Blocking calls that were made before are known: what the check of a call finds depends on few
// numbers, and training makes the same calls again and again. A known call costs a comparison
// instead.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "banyan/banyan.h"
#include "src/c_api/structs.h"
#include "src/communicator/quick_call.h"
#include "src/cuda/device_memory.h"

namespace banyan {

// A call without options that has one range of memory on either side.
struct PlainCall {
  banyan_collective_t collective;
  banyan_datatype_t datatype;
  int op;
  int root;
  size_t count;
  const void* send;
  void* recv;
};

banyan_call_t call_of(const PlainCall& plain);

// What is known of one.
struct KnownCall {
  std::shared_ptr<Plan> plan;        // null: nothing
  std::unique_ptr<QuickCall> quick;  // null: the plan fits no program
};

class KnownCalls {
 public:
  // The numbers from first to first + more, counted round the end.
  struct Interval {
    uintptr_t first = 0;
    uintptr_t more = UINTPTR_MAX;

    bool has(uintptr_t number) const { return number - first <= more; }
  };
  // One call, and what is known of it.
  struct Place {
    int collective = 0;
    int datatype = 0;
    int op = 0;
    int root = 0;
    size_t count = 0;
    // The check (arguments.cc) has found that needed buffers are there, end before the last
    // address, and lie apart unless in place.
    Interval send;
    Interval recv;
    Interval distance;  // from send to recv
    KnownCall known;

    // Whether it is known with these numbers, and with buffers that lie to each other like this.
    bool serves(const PlainCall& call) const {
      return matches(call) && !(may_meet_devices() && is_of_device(call));
    }

   private:
    bool matches(const PlainCall& call) const {
      return count == call.count && op == call.op && root == call.root &&
             collective == number_in(call.collective) && datatype == number_in(call.datatype) &&
             known.plan != nullptr &&
             buffers_match(reinterpret_cast<uintptr_t>(call.send),
                           reinterpret_cast<uintptr_t>(call.recv));
    }
    bool buffers_match(uintptr_t send_begin, uintptr_t recv_begin) const {
      return send.has(send_begin) && recv.has(recv_begin) && distance.has(recv_begin - send_begin);
    }
    // The driver may have been loaded since the call was checked.
    static bool is_of_device(const PlainCall& call) {
      look_for_cuda_driver();
      return is_in_device_memory(call.send) || is_in_device_memory(call.recv);
    }
  };

  // Null: such a call is to be checked.
  const Place* find(const PlainCall& call) const {
    for (const Place& place : sets_[set_of(call)].places)
      if (place.serves(call)) return &place;
    return nullptr;
  }
  // Remembers a call that was checked and is `checked`; it may take the place of another one.
  // Operators that may end before the communicator are not for this.
  void remember(const PlainCall& call, const Call& checked, KnownCall known);

 private:
  struct Set {
    std::array<Place, 4> places;
    uint32_t next = 0;  // to be taken
  };
  static constexpr int kSetBits = 5;

  static Interval places_of(uint64_t bytes, bool in_place);
  static Interval distances_of(const PlainCall& call, const Call& checked);
  static size_t set_of(const PlainCall& call) {
    const auto part = [](int number, int shift) {
      return static_cast<uint64_t>(static_cast<uint32_t>(number)) << shift;
    };
    const uint64_t small = part(number_in(call.collective), 12) ^
                           part(number_in(call.datatype), 6) ^ part(call.op, 0) ^
                           part(call.root, 20) ^ part(call.send == call.recv ? 1 : 0, 52);
    return ((call.count + small * 0x9e3779b97f4a7c15U) * 0xbf58476d1ce4e5b9U) >> (64 - kSetBits);
  }

  std::array<Set, size_t{1} << kSetBits> sets_;
};

}  // namespace banyan
