// SPDX-License-Identifier: Apache-2.0

#include "algorithms/peer_talk.h"

#include "algorithms/generators.h"

namespace banyan {

// Each rank knows its own counts of an alltoallv alone.
uint32_t PeerTalk::lists(Slice input, Slice output) {
  const uint64_t element = problem_.element();
  return builder_.add_delegation({slices_of(input, input_blocks(group_, problem_), element),
                                  slices_of(output, output_blocks(group_, problem_), element)});
}

void PeerTalk::agree(Slice input, Slice output, bool delegates) {
  const bool has_lists = problem_.collective == Collective::kAlltoallv;
  const auto ranks = static_cast<size_t>(group_.size());
  const uint64_t bytes = has_lists ? listed_offer_bytes(ranks) : kOfferBytes;
  const Slice offers = builder_.scratch(bytes * ranks);
  const auto offer_of = [&](int place) {
    return offers.sub(bytes * static_cast<uint64_t>(place), bytes);
  };
  const MemoryKind memory = problem_.staging.any() ? MemoryKind::kDevice : MemoryKind::kHost;
  const Slice own = offer_of(group_.me);
  builder_.repeat({.op = Op::kOffer,
                   .memory = memory,
                   .delegates = delegates,
                   .coding = has_lists ? lists(input, output) : 0,
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
