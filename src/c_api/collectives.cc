// banyan.h: the blocking calls. Each fills in a banyan_call_t.
// SPDX-License-Identifier: Apache-2.0

#include "src/c_api/group.h"
#include "src/c_api/run.h"

namespace {

using banyan::call_of;
using banyan::PlainCall;

banyan_result_t run(const banyan_call_t& call, banyan_comm_t comm) {
  return banyan::door(comm, [&] { return banyan::run_call(comm, call); });
}

banyan_result_t run(const PlainCall& plain, banyan_comm_t comm) {
  const banyan::Visiting inside(comm);
  banyan::OpenCommunicator* communicator = inside.get();
  banyan::QuickCall* quick = banyan::find_known(communicator, plain);
  if (quick == nullptr && banyan::join_known(communicator, plain)) return BANYAN_SUCCESS;
  if (quick == nullptr)
    return banyan::door(comm, [&] { return banyan::run_call(comm, call_of(plain), &plain); });
  banyan::Driver driver = banyan::Driver::of_resting(*communicator->membership);
  driver->begin(*quick, plain.send, plain.recv);
  if (banyan::run_through(driver, *quick)) {
    driver.leave_quickly();
    return BANYAN_SUCCESS;
  }
  return banyan::door(comm, [&] {
    return banyan::with_memory(driver, [&] { return banyan::go_on(driver, *quick); });
  });
}

}  // namespace

banyan_result_t banyan_allreduce(const void* send, void* recv, size_t count,
                                 banyan_datatype_t datatype, banyan_op_t op, banyan_comm_t comm) {
  return run(PlainCall{BANYAN_ALLREDUCE, datatype, op, 0, count, send, recv}, comm);
}

banyan_result_t banyan_reduce(const void* send, void* recv, size_t count,
                              banyan_datatype_t datatype, banyan_op_t op, int root,
                              banyan_comm_t comm) {
  return run(PlainCall{BANYAN_REDUCE, datatype, op, root, count, send, recv}, comm);
}

banyan_result_t banyan_broadcast(const void* send, void* recv, size_t count,
                                 banyan_datatype_t datatype, int root, banyan_comm_t comm) {
  return run(PlainCall{BANYAN_BROADCAST, datatype, 0, root, count, send, recv}, comm);
}

banyan_result_t banyan_allgather(const void* send, void* recv, size_t send_count,
                                 banyan_datatype_t datatype, banyan_comm_t comm) {
  return run(PlainCall{BANYAN_ALLGATHER, datatype, 0, 0, send_count, send, recv}, comm);
}

banyan_result_t banyan_allgatherv(const void* send, size_t send_count, void* recv,
                                  const size_t* recv_counts, const size_t* recv_displacements,
                                  banyan_datatype_t datatype, banyan_comm_t comm) {
  banyan_call_t call = call_of({BANYAN_ALLGATHERV, datatype, 0, 0, send_count, send, recv});
  call.recv_counts = recv_counts;
  call.recv_displacements = recv_displacements;
  return run(call, comm);
}

banyan_result_t banyan_reduce_scatter(const void* send, void* recv, size_t recv_count,
                                      banyan_datatype_t datatype, banyan_op_t op,
                                      banyan_comm_t comm) {
  return run(PlainCall{BANYAN_REDUCE_SCATTER, datatype, op, 0, recv_count, send, recv}, comm);
}

banyan_result_t banyan_reduce_scatterv(const void* send, void* recv, const size_t* recv_counts,
                                       banyan_datatype_t datatype, banyan_op_t op,
                                       banyan_comm_t comm) {
  banyan_call_t call = call_of({BANYAN_REDUCE_SCATTERV, datatype, op, 0, 0, send, recv});
  call.recv_counts = recv_counts;
  return run(call, comm);
}

banyan_result_t banyan_alltoall(const void* send, void* recv, size_t count_per_rank,
                                banyan_datatype_t datatype, banyan_comm_t comm) {
  return run(PlainCall{BANYAN_ALLTOALL, datatype, 0, 0, count_per_rank, send, recv}, comm);
}

banyan_result_t banyan_alltoallv(const void* send, const size_t* send_counts,
                                 const size_t* send_displacements, void* recv,
                                 const size_t* recv_counts, const size_t* recv_displacements,
                                 banyan_datatype_t datatype, banyan_comm_t comm) {
  banyan_call_t call = call_of({BANYAN_ALLTOALLV, datatype, 0, 0, 0, send, recv});
  call.send_counts = send_counts;
  call.send_displacements = send_displacements;
  call.recv_counts = recv_counts;
  call.recv_displacements = recv_displacements;
  return run(call, comm);
}

banyan_result_t banyan_gather(const void* send, void* recv, size_t send_count,
                              banyan_datatype_t datatype, int root, banyan_comm_t comm) {
  return run(PlainCall{BANYAN_GATHER, datatype, 0, root, send_count, send, recv}, comm);
}

banyan_result_t banyan_scatter(const void* send, void* recv, size_t recv_count,
                               banyan_datatype_t datatype, int root, banyan_comm_t comm) {
  return run(PlainCall{BANYAN_SCATTER, datatype, 0, root, recv_count, send, recv}, comm);
}

banyan_result_t banyan_barrier(banyan_comm_t comm) {
  return run(PlainCall{BANYAN_BARRIER, BANYAN_INT8, 0, 0, 0, nullptr, nullptr}, comm);
}

banyan_result_t banyan_send(const void* send, size_t count, banyan_datatype_t datatype, int peer,
                            banyan_comm_t comm) {
  return run(PlainCall{BANYAN_SEND, datatype, 0, peer, count, send, nullptr}, comm);
}

banyan_result_t banyan_recv(void* recv, size_t count, banyan_datatype_t datatype, int peer,
                            banyan_comm_t comm) {
  return run(PlainCall{BANYAN_RECV, datatype, 0, peer, count, nullptr, recv}, comm);
}
