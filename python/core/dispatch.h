// The blocking function of the C interface for a call that is said as a value.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "banyan/banyan.h"

namespace banyan::python {

// The call has no options: requests are for those. INVALID_ARGUMENT: there is no such collective.
inline banyan_result_t dispatch(const banyan_call_t& c, banyan_comm_t comm) {
  switch (c.collective) {
    case BANYAN_ALLREDUCE: return banyan_allreduce(c.send, c.recv, c.count, c.datatype, c.op, comm);
    case BANYAN_REDUCE:
      return banyan_reduce(c.send, c.recv, c.count, c.datatype, c.op, c.root, comm);
    case BANYAN_BROADCAST:
      return banyan_broadcast(c.send, c.recv, c.count, c.datatype, c.root, comm);
    case BANYAN_ALLGATHER: return banyan_allgather(c.send, c.recv, c.count, c.datatype, comm);
    case BANYAN_ALLGATHERV:
      return banyan_allgatherv(c.send, c.count, c.recv, c.recv_counts, c.recv_displacements,
                               c.datatype, comm);
    case BANYAN_REDUCE_SCATTER:
      return banyan_reduce_scatter(c.send, c.recv, c.count, c.datatype, c.op, comm);
    case BANYAN_REDUCE_SCATTERV:
      return banyan_reduce_scatterv(c.send, c.recv, c.recv_counts, c.datatype, c.op, comm);
    case BANYAN_ALLTOALL: return banyan_alltoall(c.send, c.recv, c.count, c.datatype, comm);
    case BANYAN_ALLTOALLV:
      return banyan_alltoallv(c.send, c.send_counts, c.send_displacements, c.recv, c.recv_counts,
                              c.recv_displacements, c.datatype, comm);
    case BANYAN_GATHER: return banyan_gather(c.send, c.recv, c.count, c.datatype, c.root, comm);
    case BANYAN_SCATTER: return banyan_scatter(c.send, c.recv, c.count, c.datatype, c.root, comm);
    case BANYAN_BARRIER: return banyan_barrier(comm);
    case BANYAN_SEND: return banyan_send(c.send, c.count, c.datatype, c.root, comm);
    case BANYAN_RECV: return banyan_recv(c.recv, c.count, c.datatype, c.root, comm);
  }
  return BANYAN_ERR_INVALID_ARGUMENT;
}

}  // namespace banyan::python
