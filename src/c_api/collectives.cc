// banyan.h: the blocking calls. Each fills in a banyan_call_t.
// SPDX-License-Identifier: Apache-2.0

#include "src/c_api/run.h"

namespace {

banyan_call_t call_of(banyan_collective_t collective, const void* send, void* recv, size_t count,
                      banyan_datatype_t datatype) {
  banyan_call_t call = BANYAN_CALL_INIT;
  call.collective = collective;
  call.send = send;
  call.recv = recv;
  call.count = count;
  call.datatype = datatype;
  return call;
}

banyan_result_t run(const banyan_call_t& call, banyan_comm_t comm) {
  return banyan::door(comm, [&] { return banyan::run_call(comm, call); });
}

}  // namespace

banyan_result_t banyan_allreduce(const void* send, void* recv, size_t count,
                                 banyan_datatype_t datatype, banyan_op_t op, banyan_comm_t comm) {
  banyan_call_t call = call_of(BANYAN_ALLREDUCE, send, recv, count, datatype);
  call.op = op;
  return run(call, comm);
}

banyan_result_t banyan_reduce(const void* send, void* recv, size_t count,
                              banyan_datatype_t datatype, banyan_op_t op, int root,
                              banyan_comm_t comm) {
  banyan_call_t call = call_of(BANYAN_REDUCE, send, recv, count, datatype);
  call.op = op;
  call.root = root;
  return run(call, comm);
}

banyan_result_t banyan_broadcast(const void* send, void* recv, size_t count,
                                 banyan_datatype_t datatype, int root, banyan_comm_t comm) {
  banyan_call_t call = call_of(BANYAN_BROADCAST, send, recv, count, datatype);
  call.root = root;
  return run(call, comm);
}

banyan_result_t banyan_allgather(const void* send, void* recv, size_t send_count,
                                 banyan_datatype_t datatype, banyan_comm_t comm) {
  return run(call_of(BANYAN_ALLGATHER, send, recv, send_count, datatype), comm);
}

banyan_result_t banyan_allgatherv(const void* send, size_t send_count, void* recv,
                                  const size_t* recv_counts, const size_t* recv_displacements,
                                  banyan_datatype_t datatype, banyan_comm_t comm) {
  banyan_call_t call = call_of(BANYAN_ALLGATHERV, send, recv, send_count, datatype);
  call.recv_counts = recv_counts;
  call.recv_displacements = recv_displacements;
  return run(call, comm);
}

banyan_result_t banyan_reduce_scatter(const void* send, void* recv, size_t recv_count,
                                      banyan_datatype_t datatype, banyan_op_t op,
                                      banyan_comm_t comm) {
  banyan_call_t call = call_of(BANYAN_REDUCE_SCATTER, send, recv, recv_count, datatype);
  call.op = op;
  return run(call, comm);
}

banyan_result_t banyan_reduce_scatterv(const void* send, void* recv, const size_t* recv_counts,
                                       banyan_datatype_t datatype, banyan_op_t op,
                                       banyan_comm_t comm) {
  banyan_call_t call = call_of(BANYAN_REDUCE_SCATTERV, send, recv, 0, datatype);
  call.recv_counts = recv_counts;
  call.op = op;
  return run(call, comm);
}

banyan_result_t banyan_alltoall(const void* send, void* recv, size_t count_per_rank,
                                banyan_datatype_t datatype, banyan_comm_t comm) {
  return run(call_of(BANYAN_ALLTOALL, send, recv, count_per_rank, datatype), comm);
}

banyan_result_t banyan_alltoallv(const void* send, const size_t* send_counts,
                                 const size_t* send_displacements, void* recv,
                                 const size_t* recv_counts, const size_t* recv_displacements,
                                 banyan_datatype_t datatype, banyan_comm_t comm) {
  banyan_call_t call = call_of(BANYAN_ALLTOALLV, send, recv, 0, datatype);
  call.send_counts = send_counts;
  call.send_displacements = send_displacements;
  call.recv_counts = recv_counts;
  call.recv_displacements = recv_displacements;
  return run(call, comm);
}

banyan_result_t banyan_gather(const void* send, void* recv, size_t send_count,
                              banyan_datatype_t datatype, int root, banyan_comm_t comm) {
  banyan_call_t call = call_of(BANYAN_GATHER, send, recv, send_count, datatype);
  call.root = root;
  return run(call, comm);
}

banyan_result_t banyan_scatter(const void* send, void* recv, size_t recv_count,
                               banyan_datatype_t datatype, int root, banyan_comm_t comm) {
  banyan_call_t call = call_of(BANYAN_SCATTER, send, recv, recv_count, datatype);
  call.root = root;
  return run(call, comm);
}

banyan_result_t banyan_barrier(banyan_comm_t comm) {
  return run(call_of(BANYAN_BARRIER, nullptr, nullptr, 0, BANYAN_INT8), comm);
}

banyan_result_t banyan_send(const void* send, size_t count, banyan_datatype_t datatype, int peer,
                            banyan_comm_t comm) {
  banyan_call_t call = call_of(BANYAN_SEND, send, nullptr, count, datatype);
  call.root = peer;
  return run(call, comm);
}

banyan_result_t banyan_recv(void* recv, size_t count, banyan_datatype_t datatype, int peer,
                            banyan_comm_t comm) {
  banyan_call_t call = call_of(BANYAN_RECV, nullptr, recv, count, datatype);
  call.root = peer;
  return run(call, comm);
}
