// SPDX-License-Identifier: Apache-2.0

#include "src/c_api/known_calls.h"

namespace banyan {

banyan_call_t call_of(const PlainCall& plain) {
  banyan_call_t call = BANYAN_CALL_INIT;
  call.collective = plain.collective;
  call.send = plain.send;
  call.recv = plain.recv;
  call.count = plain.count;
  call.datatype = plain.datatype;
  call.op = plain.op;
  call.root = plain.root;
  return call;
}

// Where a buffer of so many bytes may begin.
KnownCalls::Interval KnownCalls::places_of(uint64_t bytes, bool in_place) {
  const uintptr_t least = bytes != 0 || in_place ? 1 : 0;
  return {least, UINTPTR_MAX - bytes - least};
}

KnownCalls::Interval KnownCalls::distances_of(const PlainCall& call, const Call& checked) {
  if (checked.problem.in_place)
    return {reinterpret_cast<uintptr_t>(call.recv) - reinterpret_cast<uintptr_t>(call.send), 0};
  if (checked.send_bytes == 0 || checked.recv_bytes == 0) return {};
  // recv begins where send ends, or later, but ends where send begins the next time round.
  return {checked.send_bytes, uintptr_t{0} - checked.send_bytes - checked.recv_bytes};
}

void KnownCalls::remember(const PlainCall& call, const Call& checked, KnownCall known) {
  Set& set = sets_[set_of(call)];
  set.places[set.next++ % set.places.size()] = {
      .collective = number_in(call.collective),
      .datatype = number_in(call.datatype),
      .op = call.op,
      .root = call.root,
      .count = call.count,
      .send = places_of(checked.send_bytes, checked.problem.in_place),
      .recv = places_of(checked.recv_bytes, checked.problem.in_place),
      .distance = distances_of(call, checked),
      .known = std::move(known)};
}

}  // namespace banyan
