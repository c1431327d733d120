// SPDX-License-Identifier: Apache-2.0

#include "src/c_api/known_calls.h"

namespace banyan {

void KnownCalls::remember(const PlainCall& call, const Call& checked, KnownCall known) {
  Set& set = sets_[set_of(call)];
  set.places[set.next++ % set.places.size()] = {
      .collective = number_in(call.collective),
      .datatype = number_in(call.datatype),
      .op = call.op,
      .root = call.root,
      .count = call.count,
      .in_place = checked.problem.in_place,
      .distance = reinterpret_cast<uintptr_t>(call.send) - reinterpret_cast<uintptr_t>(call.recv),
      .send_bytes = checked.send_bytes,
      .recv_bytes = checked.recv_bytes,
      .known = std::move(known)};
}

}  // namespace banyan
