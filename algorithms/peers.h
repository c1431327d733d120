// Ranks of one host read each other's memory of GPUs, where all of them have the call's buffers
// there.
//
// Each rank has a window: memory of its GPU that the others can read (Space::kWindow). A rank
// copies what it gives to its window, and says so. The others read it there, combine what they have
// read, and say that they are done. What they say are empty messages, so no kernel waits for
// another rank, and ranks may share a GPU. The one rank that owns a part of a large allreduce
// combines it, and the others read the result (two-shot); of a small one each rank combines all
// (one-shot). Both take sums in the order of ranks, as the algorithm `direct` does, and round once.
// By a codec, windows have messages, and the owner of a part sums what they say and encodes that
// (coded_allreduce).
// Source: NVIDIA TensorRT-LLM's and vLLM's custom allreduce, which is both of these.
//
// Or something else moves what the ranks give each other, where that is asked for (intra=nccl):
// each step that does is one of all ranks together (kDelegate). Kernels sum what has come, in the
// same order, so that results have the same bits.
//
// No rank knows before the call which ranks have their buffers on a GPU. A first round says it, and
// whether each can read all windows. Where one cannot, the call goes on as it would without. Of an
// alltoallv the round also says what each gives and takes: where two differ in that, or all have
// little, the call goes on by the host, too, which finds such differences.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "algorithms/problem.h"
#include "algorithms/schedule.h"

namespace banyan {

// Vectors up to this length are combined as a whole by each rank.
inline constexpr uint64_t kOneShotMost = uint64_t{256} << 10;
// Inside hosts a rank has a copy to a GPU and one back besides: shorter vectors go by the host.
inline constexpr uint64_t kPeersInsideLeast = uint64_t{256} << 10;

// Whether such a call of so many ranks may go by windows, where its algorithm has these parameters.
// It is the same on all of them. By codecs an allreduce may, if their messages have one length and
// GPUs have kernels for them.
bool may_go_by_peers(const Problem& problem, int ranks, const Parameters& parameters = {});

// The same inside hosts, of which there are several (host_windows.h), by `hierarchical` over these
// levels, which are simplified(): the parts of the lowest are hosts.
bool may_go_by_peers_inside(const Problem& problem, int ranks, const Hierarchy& levels,
                            const Parameters& parameters);

// Whether calls with these go by delegates instead of by windows that others read, on one host.
inline bool delegates(const Parameters& parameters) {
  return parameters.intra == Phase::kNccl && !parameters.encodes();
}

// Puts that before a schedule of the same call, by `direct` with the group's parameters, which is
// for where it cannot be; of an alltoallv, by any algorithm. `window`: bytes of a window. The
// problem's staging says what this rank has on a GPU.
Schedule with_peers(const Schedule& otherwise, const Problem& problem, const Group& group,
                    uint64_t window = kWindowBytes);

}  // namespace banyan
