// The calls are a switch over the patterns; what it costs is far below what a call costs.
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/calls.h"

#include <cstdint>

namespace banyan::perf {

namespace {

constexpr int32_t kAnswer = 0;

int peer_of(const Call& call) {
  return call.peer >= 0 ? call.peer : 1 - call.rank;
}

banyan_result_t ping_pong(const Call& call) {
  const int peer = peer_of(call);
  if (call.rank == 0) {
    const banyan_result_t sent = banyan_send(call.send, call.count, call.type, peer, call.comm);
    if (sent != BANYAN_SUCCESS) return sent;
    return banyan_recv(call.recv, call.count, call.type, peer, call.comm);
  }
  const banyan_result_t got = banyan_recv(call.recv, call.count, call.type, peer, call.comm);
  if (got != BANYAN_SUCCESS) return got;
  return banyan_send(call.send, call.count, call.type, peer, call.comm);
}

// The messages of a window are in flight together and share one buffer on either side, as in OSU.
banyan_result_t window(const Call& call, bool sends, bool receives) {
  const int peer = peer_of(call);
  banyan_result_t result = banyan_group_start();
  if (result != BANYAN_SUCCESS) return result;
  for (int i = 0; i < kWindow && result == BANYAN_SUCCESS; ++i) {
    if (receives) result = banyan_recv(call.recv, call.count, call.type, peer, call.comm);
    if (sends && result == BANYAN_SUCCESS)
      result = banyan_send(call.send, call.count, call.type, peer, call.comm);
  }
  const banyan_result_t ended = banyan_group_end();
  return result == BANYAN_SUCCESS ? ended : result;
}

banyan_result_t one_way(const Call& call) {
  const bool sender = call.rank == 0;
  const banyan_result_t moved = window(call, sender, !sender);
  if (moved != BANYAN_SUCCESS) return moved;
  if (!sender) return banyan_send(&kAnswer, 1, BANYAN_INT32, peer_of(call), call.comm);
  int32_t answer = 0;
  return banyan_recv(&answer, 1, BANYAN_INT32, peer_of(call), call.comm);
}

banyan_collective_t collective_of(const Call& call) {
  switch (call.pattern) {
    case Pattern::kAllreduce: return BANYAN_ALLREDUCE;
    case Pattern::kAllgather: return BANYAN_ALLGATHER;
    case Pattern::kReduceScatter: return BANYAN_REDUCE_SCATTER;
    case Pattern::kBroadcast: return BANYAN_BROADCAST;
    case Pattern::kReduce: return BANYAN_REDUCE;
    case Pattern::kAlltoall: return BANYAN_ALLTOALL;
    case Pattern::kGather: return BANYAN_GATHER;
    case Pattern::kScatter: return BANYAN_SCATTER;
    case Pattern::kBarrier: return BANYAN_BARRIER;
    case Pattern::kBandwidth: return call.rank == 0 ? BANYAN_SEND : BANYAN_RECV;
    case Pattern::kLatency:
    case Pattern::kBothWays: return BANYAN_SEND;
  }
  return BANYAN_BARRIER;
}

}  // namespace

banyan_result_t run_once(const Call& call) {
  const auto [pattern, send, recv, count, type, op, rank, comm, peer] = call;
  switch (pattern) {
    case Pattern::kAllreduce: return banyan_allreduce(send, recv, count, type, op, comm);
    case Pattern::kAllgather: return banyan_allgather(send, recv, count, type, comm);
    case Pattern::kReduceScatter: return banyan_reduce_scatter(send, recv, count, type, op, comm);
    case Pattern::kBroadcast: return banyan_broadcast(send, recv, count, type, kRoot, comm);
    case Pattern::kReduce: return banyan_reduce(send, recv, count, type, op, kRoot, comm);
    case Pattern::kAlltoall: return banyan_alltoall(send, recv, count, type, comm);
    case Pattern::kGather: return banyan_gather(send, recv, count, type, kRoot, comm);
    case Pattern::kScatter: return banyan_scatter(send, recv, count, type, kRoot, comm);
    case Pattern::kBarrier: return banyan_barrier(comm);
    case Pattern::kLatency: return rank < 2 ? ping_pong(call) : BANYAN_SUCCESS;
    case Pattern::kBandwidth: return rank < 2 ? one_way(call) : BANYAN_SUCCESS;
    case Pattern::kBothWays: return rank < 2 ? window(call, true, true) : BANYAN_SUCCESS;
  }
  return BANYAN_ERR_INTERNAL;
}

banyan_call_t describe(const Call& call) {
  banyan_call_t described = BANYAN_CALL_INIT;
  described.collective = collective_of(call);
  described.send = call.send;
  described.recv = call.recv;
  described.count = call.count;
  described.datatype = call.type;
  described.op = call.op;
  described.root = is_pair(call.pattern) ? peer_of(call) : kRoot;
  return described;
}

uint64_t messages_of(const Call& call) {
  if (!is_pair(call.pattern)) return 1;
  if (call.rank > 1) return 0;
  return call.pattern == Pattern::kLatency ? 1 : kWindow;
}

}  // namespace banyan::perf
