// The collectives of an MPI library by banyan_perf's method. Built once per MPI that is installed.
// SPDX-License-Identifier: Apache-2.0

#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "bench/peers/peer.h"

static int barrier(void* self) {
  (void)self;
  return MPI_Barrier(MPI_COMM_WORLD);
}

static int sum(void* self, double* value) {
  (void)self;
  return MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static int ping_pong(int rank, const struct PeerCase* a_case) {
  const int count = (int)a_case->count;
  if (rank == 0) {
    MPI_Send(a_case->send, count, MPI_FLOAT, 1, 0, MPI_COMM_WORLD);
    return MPI_Recv(a_case->recv, count, MPI_FLOAT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  MPI_Recv(a_case->recv, count, MPI_FLOAT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return MPI_Send(a_case->send, count, MPI_FLOAT, 0, 0, MPI_COMM_WORLD);
}

static int window(int rank, const struct PeerCase* a_case) {
  MPI_Request requests[kPeerWindow];
  const int count = (int)a_case->count;
  int answer = 0;
  for (int i = 0; i < kPeerWindow; ++i) {
    if (rank == 0)
      MPI_Isend(a_case->send, count, MPI_FLOAT, 1, 0, MPI_COMM_WORLD, &requests[i]);
    else
      MPI_Irecv(a_case->recv, count, MPI_FLOAT, 0, 0, MPI_COMM_WORLD, &requests[i]);
  }
  MPI_Waitall(kPeerWindow, requests, MPI_STATUSES_IGNORE);
  if (rank == 0) return MPI_Recv(&answer, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return MPI_Send(&answer, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
}

static int run(void* self, const struct PeerCase* a_case) {
  const int rank = *(const int*)self;
  const int count = (int)a_case->count;
  float* send = a_case->send;
  float* recv = a_case->recv;
  switch (a_case->pattern) {
    case kPeerAllreduce:
      return MPI_Allreduce(send, recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    case kPeerAllgather:
      return MPI_Allgather(send, count, MPI_FLOAT, recv, count, MPI_FLOAT, MPI_COMM_WORLD);
    case kPeerReduceScatter:
      return MPI_Reduce_scatter_block(send, recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    case kPeerBroadcast:
      return MPI_Bcast(rank == 0 ? send : recv, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
    case kPeerAlltoall:
      return MPI_Alltoall(send, count, MPI_FLOAT, recv, count, MPI_FLOAT, MPI_COMM_WORLD);
    case kPeerBarrier: return MPI_Barrier(MPI_COMM_WORLD);
    case kPeerLatency: return ping_pong(rank, a_case);
    case kPeerBandwidth: return window(rank, a_case);
  }
  return 1;
}

static int print_version(void) {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  text[strcspn(text, "\n")] = '\0';
  puts(text);
  return 0;
}

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "--version") == 0) return print_version();
  struct PeerOptions options;
  MPI_Init(&argc, &argv);
  int rank = 0;
  struct Peer peer = {.self = &rank, .barrier = barrier, .sum = sum, .run = run};
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &peer.size);
  peer.rank = rank;
  const int status = peer_parse(argc, argv, &options) ? peer_run(&peer, &options) : 2;
  // The others may wait for this rank, which has said why it goes.
  if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
  MPI_Finalize();
  return 0;
}
