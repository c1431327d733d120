// The programs that measure other libraries share this: banyan_perf's method and options, in plain
// C.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum PeerPattern {
  kPeerAllreduce,
  kPeerAllgather,
  kPeerReduceScatter,
  kPeerBroadcast,  // in place at rank 0
  kPeerAlltoall,
  kPeerBarrier,
  kPeerLatency,
  kPeerBandwidth,
};
enum { kPeerWindow = 64 };  // messages in flight in the bandwidth pattern, as OSU has it

struct PeerOptions {
  enum PeerPattern pattern;
  size_t least_bytes, most_bytes;
  long iterations, warm_up;  // negative: as OSU, by size
  bool fresh;
};

// One size. `count` is the number of floats per rank, or per pair of ranks.
struct PeerCase {
  enum PeerPattern pattern;
  float* send;  // null: this rank has none
  float* recv;
  size_t count;
};

// Holds what peer_run needs of a library. Every function gets `self`; they return 0, or the process
// is ended by peer_run with exit status 1.
struct Peer {
  void* self;
  int rank, size;
  bool in_place;  // the library sums into its input: send and recv are one buffer
  int (*barrier)(void* self);
  int (*sum)(void* self, double* value);                      // over all ranks, at every rank
  int (*prepare)(void* self, const struct PeerCase* a_case);  // before a size, not timed
  int (*run)(void* self, const struct PeerCase* a_case);      // what is timed
};

// COLLECTIVE [-m MIN:MAX] [-i N] [-x N] [--fresh]; false: said on stderr what is wrong.
bool peer_parse(int argc, char** argv, struct PeerOptions* options);

// Makes the sweep: rank 0 writes CSV rows, "bytes,latency_us" and for the bandwidth pattern "MBps".
// Returns the exit status: 1 where a call failed or a result is wrong.
int peer_run(const struct Peer* peer, const struct PeerOptions* options);

#ifdef __cplusplus
}
#endif
