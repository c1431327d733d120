// SPDX-License-Identifier: Apache-2.0

#include "algorithms/peer_talk.h"

namespace banyan {

void PeerTalk::agree(Slice input, Slice output, bool delegates) {
  const Slice offers = builder_.scratch(kOfferBytes * static_cast<uint64_t>(group_.size()));
  const auto offer_of = [&](int place) {
    return offers.sub(kOfferBytes * static_cast<uint64_t>(place), kOfferBytes);
  };
  const MemoryKind memory = problem_.staging.any() ? MemoryKind::kDevice : MemoryKind::kHost;
  const Slice own = offer_of(group_.me);
  builder_.repeat({.op = Op::kOffer,
                   .memory = memory,
                   .delegates = delegates,
                   .src = input,
                   .src2 = output,
                   .dst = own},
                  {});
  for_others([&](int place) { builder_.send(own, group_.at(place)); });
  for_others([&](int place) { builder_.recv(offer_of(place), group_.at(place)); });
  builder_.repeat({.op = Op::kDecide,
                   .memory = memory,
                   .delegates = delegates,
                   .src = offers,
                   .src2 = {},
                   .dst = {}},
                  {});
  builder_.fence();
}

}  // namespace banyan
