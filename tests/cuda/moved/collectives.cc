// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/cuda/moved/calls.h"
#include "tests/cuda/moved/gpus.h"
#include "tests/cuda/moved/moved_buffers.h"

namespace banyan::test {

DECLARE_REAL(banyan_allgather)
DECLARE_REAL(banyan_allgatherv)
DECLARE_REAL(banyan_allreduce)
DECLARE_REAL(banyan_alltoall)
DECLARE_REAL(banyan_alltoallv)
DECLARE_REAL(banyan_broadcast)
DECLARE_REAL(banyan_comm_finalize)
DECLARE_REAL(banyan_gather)
DECLARE_REAL(banyan_group_end)
DECLARE_REAL(banyan_group_start)
DECLARE_REAL(banyan_recv)
DECLARE_REAL(banyan_reduce)
DECLARE_REAL(banyan_reduce_scatter)
DECLARE_REAL(banyan_reduce_scatterv)
DECLARE_REAL(banyan_request_create)
DECLARE_REAL(banyan_request_destroy)
DECLARE_REAL(banyan_request_start)
DECLARE_REAL(banyan_request_test)
DECLARE_REAL(banyan_request_wait)
DECLARE_REAL(banyan_scatter)
DECLARE_REAL(banyan_send)

namespace {

// More elements are an argument that the library is to refuse.
constexpr size_t kMost = size_t{1} << 30;

// The caller's place among the ranks; size 0: the library will refuse.
struct Place {
  size_t rank = 0;
  size_t size = 0;
};

Place place_in(banyan_comm_t comm) {
  int rank = 0, size = 0;
  if (comm == nullptr || banyan_comm_rank(comm, &rank) != BANYAN_SUCCESS ||
      banyan_comm_size(comm, &size) != BANYAN_SUCCESS)
    return {};
  return {static_cast<size_t>(rank), static_cast<size_t>(size)};
}

size_t times(size_t count, size_t size) {
  return size == 0 || count > kMost / size ? kMost + 1 : count * size;
}

// How far blocks reach that lie at their displacements, or packed.
size_t reach(const size_t* counts, const size_t* displacements, size_t size) {
  size_t end = 0;
  if (counts == nullptr) return 0;
  for (size_t rank = 0; rank < size; ++rank) {
    const size_t begin = displacements == nullptr ? end : displacements[rank];
    if (counts[rank] > kMost || begin > kMost) return kMost + 1;
    if (counts[rank] != 0) end = std::max(end, begin + counts[rank]);
  }
  return end;
}

struct Buffers {
  HostBuffer send;
  HostBuffer recv;
};

Buffers buffers_of(const banyan_call_t& call, const Place& caller) {
  const size_t one = call.count, all = times(call.count, caller.size);
  const bool is_root = static_cast<size_t>(call.root) == caller.rank;
  const auto counts = [&](size_t send, size_t recv) {
    return Buffers{elements(call.send, send, call.datatype),
                   elements(call.recv, recv, call.datatype)};
  };
  const auto received = [&] {
    return reach(call.recv_counts, call.recv_displacements, caller.size);
  };
  switch (call.collective) {
    case BANYAN_ALLREDUCE: return counts(one, one);
    case BANYAN_REDUCE: return counts(one, is_root ? one : 0);
    case BANYAN_BROADCAST: return counts(is_root ? one : 0, one);
    case BANYAN_ALLGATHER: return counts(one, all);
    case BANYAN_ALLGATHERV: return counts(one, received());
    case BANYAN_REDUCE_SCATTER: return counts(all, one);
    case BANYAN_REDUCE_SCATTERV:
      return counts(reach(call.recv_counts, nullptr, caller.size),
                    call.recv_counts == nullptr ? 0 : call.recv_counts[caller.rank]);
    case BANYAN_ALLTOALL: return counts(all, all);
    case BANYAN_ALLTOALLV:
      return counts(reach(call.send_counts, call.send_displacements, caller.size), received());
    case BANYAN_GATHER: return counts(one, is_root ? all : 0);
    case BANYAN_SCATTER: return counts(is_root ? all : 0, one);
    case BANYAN_BARRIER: return {};
    case BANYAN_SEND: return counts(one, 0);
    case BANYAN_RECV: return counts(0, one);
  }
  return {};
}

// Null: nothing of it is to be moved. Ranks share the GPUs that there are.
std::unique_ptr<MovedBuffers> move_buffers(const banyan_call_t& call, banyan_comm_t comm) {
  const Place caller = place_in(comm);
  if (caller.size == 0) return nullptr;
  const Buffers buffers = buffers_of(call, caller);
  const bool any = (buffers.send.memory != nullptr && buffers.send.bytes != 0) ||
                   (buffers.recv.memory != nullptr && buffers.recv.bytes != 0);
  if (!any) return nullptr;
  const int gpu = static_cast<int>(caller.rank) % Gpus::of_process().count();
  return std::make_unique<MovedBuffers>(gpu, buffers.send, buffers.recv);
}

// This thread's group: what its calls have moved, and the requests that have joined it.
thread_local int group_depth = 0;
thread_local std::vector<std::unique_ptr<MovedBuffers>> moved_in_group;
thread_local std::vector<banyan_request_t> started_in_group;

// As Call(send, recv), with the buffers of `call` moved.
template <typename Call>
banyan_result_t moved(const banyan_call_t& call, banyan_comm_t comm, const Call& real) {
  std::unique_ptr<MovedBuffers> buffers = move_buffers(call, comm);
  if (buffers == nullptr) return real(call.send, call.recv);
  buffers->bring_in();
  const banyan_result_t result = real(buffers->send(), buffers->recv());
  if (group_depth == 0)
    buffers->take_out();
  else if (result == BANYAN_SUCCESS)
    moved_in_group.push_back(std::move(buffers));
  return result;
}

banyan_call_t call_of(banyan_collective_t collective, const void* send, void* recv, size_t count,
                      banyan_datatype_t datatype, int root = 0) {
  banyan_call_t call = BANYAN_CALL_INIT;
  call.collective = collective;
  call.send = send;
  call.recv = recv;
  call.count = count;
  call.datatype = datatype;
  call.root = root;
  return call;
}

struct MovedRequest {
  banyan_comm_t comm = nullptr;
  std::unique_ptr<MovedBuffers> buffers;
  bool in_flight = false;
};

class MovedRequests {
 public:
  void add(banyan_request_t request, MovedRequest moved) {
    const std::lock_guard lock(mutex_);
    requests_[request] = std::move(moved);
  }
  void remove(banyan_request_t request) {
    const std::lock_guard lock(mutex_);
    requests_.erase(request);
  }
  // Null: nothing of it was moved. One thread at a time uses a request.
  MovedRequest* find(banyan_request_t request) {
    const std::lock_guard lock(mutex_);
    const auto found = requests_.find(request);
    return found == requests_.end() ? nullptr : &found->second;
  }
  void take_out_all(banyan_comm_t comm) {
    const std::lock_guard lock(mutex_);
    for (auto& [request, moved] : requests_)
      if (moved.comm == comm && std::exchange(moved.in_flight, false)) moved.buffers->take_out();
  }
  void take_out(banyan_request_t request) {
    MovedRequest* moved = find(request);
    if (moved != nullptr && std::exchange(moved->in_flight, false)) moved->buffers->take_out();
  }

 private:
  std::mutex mutex_;
  std::map<banyan_request_t, MovedRequest> requests_;
};

MovedRequests& moved_requests() {
  static auto* const requests = new MovedRequests;
  return *requests;
}

}  // namespace

extern "C" {

MOVED(banyan_allreduce)
(const void* send, void* recv, size_t count, banyan_datatype_t datatype, banyan_op_t op,
 banyan_comm_t comm) {
  return moved(call_of(BANYAN_ALLREDUCE, send, recv, count, datatype), comm,
               [&](const void* from, void* to) {
                 return REAL(banyan_allreduce)(from, to, count, datatype, op, comm);
               });
}

MOVED(banyan_reduce)
(const void* send, void* recv, size_t count, banyan_datatype_t datatype, banyan_op_t op, int root,
 banyan_comm_t comm) {
  return moved(call_of(BANYAN_REDUCE, send, recv, count, datatype, root), comm,
               [&](const void* from, void* to) {
                 return REAL(banyan_reduce)(from, to, count, datatype, op, root, comm);
               });
}

MOVED(banyan_broadcast)
(const void* send, void* recv, size_t count, banyan_datatype_t datatype, int root,
 banyan_comm_t comm) {
  return moved(call_of(BANYAN_BROADCAST, send, recv, count, datatype, root), comm,
               [&](const void* from, void* to) {
                 return REAL(banyan_broadcast)(from, to, count, datatype, root, comm);
               });
}

MOVED(banyan_allgather)
(const void* send, void* recv, size_t send_count, banyan_datatype_t datatype, banyan_comm_t comm) {
  return moved(call_of(BANYAN_ALLGATHER, send, recv, send_count, datatype), comm,
               [&](const void* from, void* to) {
                 return REAL(banyan_allgather)(from, to, send_count, datatype, comm);
               });
}

MOVED(banyan_allgatherv)
(const void* send, size_t send_count, void* recv, const size_t* recv_counts,
 const size_t* recv_displacements, banyan_datatype_t datatype, banyan_comm_t comm) {
  banyan_call_t call = call_of(BANYAN_ALLGATHERV, send, recv, send_count, datatype);
  call.recv_counts = recv_counts;
  call.recv_displacements = recv_displacements;
  return moved(call, comm, [&](const void* from, void* to) {
    return REAL(banyan_allgatherv)(from, send_count, to, recv_counts, recv_displacements, datatype,
                                   comm);
  });
}

MOVED(banyan_reduce_scatter)
(const void* send, void* recv, size_t recv_count, banyan_datatype_t datatype, banyan_op_t op,
 banyan_comm_t comm) {
  return moved(call_of(BANYAN_REDUCE_SCATTER, send, recv, recv_count, datatype), comm,
               [&](const void* from, void* to) {
                 return REAL(banyan_reduce_scatter)(from, to, recv_count, datatype, op, comm);
               });
}

MOVED(banyan_reduce_scatterv)
(const void* send, void* recv, const size_t* recv_counts, banyan_datatype_t datatype,
 banyan_op_t op, banyan_comm_t comm) {
  banyan_call_t call = call_of(BANYAN_REDUCE_SCATTERV, send, recv, 0, datatype);
  call.recv_counts = recv_counts;
  return moved(call, comm, [&](const void* from, void* to) {
    return REAL(banyan_reduce_scatterv)(from, to, recv_counts, datatype, op, comm);
  });
}

MOVED(banyan_alltoall)
(const void* send, void* recv, size_t count_per_rank, banyan_datatype_t datatype,
 banyan_comm_t comm) {
  return moved(call_of(BANYAN_ALLTOALL, send, recv, count_per_rank, datatype), comm,
               [&](const void* from, void* to) {
                 return REAL(banyan_alltoall)(from, to, count_per_rank, datatype, comm);
               });
}

MOVED(banyan_alltoallv)
(const void* send, const size_t* send_counts, const size_t* send_displacements, void* recv,
 const size_t* recv_counts, const size_t* recv_displacements, banyan_datatype_t datatype,
 banyan_comm_t comm) {
  banyan_call_t call = call_of(BANYAN_ALLTOALLV, send, recv, 0, datatype);
  call.send_counts = send_counts;
  call.send_displacements = send_displacements;
  call.recv_counts = recv_counts;
  call.recv_displacements = recv_displacements;
  return moved(call, comm, [&](const void* from, void* to) {
    return REAL(banyan_alltoallv)(from, send_counts, send_displacements, to, recv_counts,
                                  recv_displacements, datatype, comm);
  });
}

MOVED(banyan_gather)
(const void* send, void* recv, size_t send_count, banyan_datatype_t datatype, int root,
 banyan_comm_t comm) {
  return moved(call_of(BANYAN_GATHER, send, recv, send_count, datatype, root), comm,
               [&](const void* from, void* to) {
                 return REAL(banyan_gather)(from, to, send_count, datatype, root, comm);
               });
}

MOVED(banyan_scatter)
(const void* send, void* recv, size_t recv_count, banyan_datatype_t datatype, int root,
 banyan_comm_t comm) {
  return moved(call_of(BANYAN_SCATTER, send, recv, recv_count, datatype, root), comm,
               [&](const void* from, void* to) {
                 return REAL(banyan_scatter)(from, to, recv_count, datatype, root, comm);
               });
}

MOVED(banyan_send)
(const void* send, size_t count, banyan_datatype_t datatype, int peer, banyan_comm_t comm) {
  return moved(call_of(BANYAN_SEND, send, nullptr, count, datatype), comm,
               [&](const void* from, void* /*to*/) {
                 return REAL(banyan_send)(from, count, datatype, peer, comm);
               });
}

MOVED(banyan_recv)
(void* recv, size_t count, banyan_datatype_t datatype, int peer, banyan_comm_t comm) {
  return moved(call_of(BANYAN_RECV, nullptr, recv, count, datatype), comm,
               [&](const void* /*from*/, void* to) {
                 return REAL(banyan_recv)(to, count, datatype, peer, comm);
               });
}

MOVED(banyan_group_start)(void) {
  const banyan_result_t result = REAL(banyan_group_start)();
  if (result == BANYAN_SUCCESS) ++group_depth;
  return result;
}

MOVED(banyan_group_end)(void) {
  const banyan_result_t result = REAL(banyan_group_end)();
  if (group_depth == 0 || --group_depth != 0) return result;
  for (const auto& buffers : std::exchange(moved_in_group, {})) buffers->take_out();
  for (banyan_request_t request : std::exchange(started_in_group, {})) {
    MovedRequest* moved = moved_requests().find(request);
    if (moved != nullptr && result != BANYAN_SUCCESS) moved->in_flight = false;
  }
  return result;
}

// What takes its turn on a stream is a program's that knows of GPUs.
MOVED(banyan_request_create)
(banyan_comm_t comm, const banyan_call_t* call, banyan_request_t* request) {
  const bool known = call != nullptr && call->size == sizeof(banyan_call_t) && !call->on_stream;
  std::unique_ptr<MovedBuffers> buffers = known ? move_buffers(*call, comm) : nullptr;
  if (buffers == nullptr) return REAL(banyan_request_create)(comm, call, request);
  banyan_call_t there = *call;
  there.send = buffers->send();
  there.recv = buffers->recv();
  const banyan_result_t result = REAL(banyan_request_create)(comm, &there, request);
  if (result == BANYAN_SUCCESS) moved_requests().add(*request, {comm, std::move(buffers)});
  return result;
}

MOVED(banyan_request_start)(banyan_request_t request) {
  MovedRequest* moved = moved_requests().find(request);
  if (moved == nullptr || moved->in_flight) return REAL(banyan_request_start)(request);
  moved->buffers->bring_in();
  const banyan_result_t result = REAL(banyan_request_start)(request);
  moved->in_flight = result == BANYAN_SUCCESS;
  if (moved->in_flight && group_depth != 0) started_in_group.push_back(request);
  return result;
}

MOVED(banyan_request_test)(banyan_request_t request, int* done) {
  const banyan_result_t result = REAL(banyan_request_test)(request, done);
  if (done != nullptr && *done == 1) moved_requests().take_out(request);
  return result;
}

MOVED(banyan_request_wait)(banyan_request_t request) {
  const banyan_result_t result = REAL(banyan_request_wait)(request);
  if (result != BANYAN_ERR_INVALID_USAGE && result != BANYAN_ERR_INVALID_ARGUMENT)
    moved_requests().take_out(request);
  return result;
}

// It completes what is in flight.
MOVED(banyan_comm_finalize)(banyan_comm_t comm) {
  const banyan_result_t result = REAL(banyan_comm_finalize)(comm);
  if (result == BANYAN_SUCCESS) moved_requests().take_out_all(comm);
  return result;
}

MOVED(banyan_request_destroy)(banyan_request_t request) {
  const banyan_result_t result = REAL(banyan_request_destroy)(request);
  if (result == BANYAN_SUCCESS) moved_requests().remove(request);
  return result;
}

}  // extern "C"
}  // namespace banyan::test
