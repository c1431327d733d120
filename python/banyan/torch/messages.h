// Messages between two ranks, matched by tag, for send, recv and recv from any.
//
// A rank sends a message to another as a header and then its bytes; both travel in the order of the
// calls. A rank that has a message to send or to receive takes what the others have sent: into the
// tensor that waits for it or, where none does, into memory that the next matching recv is served
// from. So two ranks that both send first, and receives in any order of tags, get on.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ATen/ATen.h>

#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "python/banyan/torch/comm.h"
#include "python/banyan/torch/device.h"
#include "python/banyan/torch/work.h"

namespace banyan::process_group {

class Messages {
 public:
  static constexpr int kAny = -1;
  using Clock = std::chrono::steady_clock;

  // The streams outlive it.
  Messages(std::unique_ptr<Comm> comm, int rank, int size, DeviceStreams& streams);
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;
  ~Messages();

  // The tensor is dense, and stays as it is until the work is done. It is read from the mark on.
  void send(const at::Tensor& tensor, int peer, int tag, WorkRef work, double timeout_s,
            const DeviceMark& from = {});
  // Copies to the tensor, which may have any strides, from the mark on. The peer may be kAny.
  void recv(const at::Tensor& tensor, int peer, int tag, WorkRef work, double timeout_s,
            const DeviceMark& from = {});
  // Fails what waits and all that comes; any thread.
  void abort();
  // In a child of fork(): the thread is not there.
  void leak() { comm_->leak(); }

 private:
  struct Header {
    int64_t tag;
    uint64_t bytes;
  };
  struct Request {
    banyan_request_t handle = nullptr;
    bool flying = false;
  };
  struct Sending {
    Header header;
    at::Tensor tensor;
    WorkRef work;
    double timeout_s;
    DeviceMark from;
    Request head, body;
    bool started = false;
  };
  struct Waiting {
    at::Tensor tensor;
    int peer, tag;
    WorkRef work;
    Clock::time_point deadline;
    double timeout_s;
    DeviceMark from;
  };
  // A message that has come, or is coming, with nobody to take it yet.
  struct Arrived {
    int peer;
    Header header;
    at::Tensor bytes;
  };
  struct Incoming {
    Header header;
    Request head, body;
    at::Tensor bytes;              // where the body goes
    std::optional<Waiting> taker;  // who gets it; none: nobody yet
    bool in_body = false;
  };
  struct Done {
    WorkRef work;
    std::exception_ptr error;
  };

  void serve();
  // One look at everything; false where nothing has moved.
  bool step();
  bool step_sends(std::deque<std::unique_ptr<Sending>>& queue, int peer);
  // The first whose stream is there; false: there is none.
  static bool bring_to_front(std::deque<std::unique_ptr<Sending>>& queue);
  bool step_incoming(Incoming& incoming, int peer);
  // Who waits for such a message, no longer among those who wait.
  std::optional<Waiting> taker_of(const Header& header, int peer);
  // Takes what has come; false: nothing has that is for it.
  bool take_arrived(Waiting& waiting);
  // Whether it takes no message yet: its stream is not there, or one before it is held that could
  // take the same.
  bool is_held(const Waiting& waiting, std::list<Waiting>::iterator end);
  bool release_held();
  void take_header(Incoming& incoming, int peer);
  void deliver(Waiting waiting, const Header& header, const at::Tensor& bytes, int peer);
  void expire(std::list<Waiting>& list);
  // Outside the lock.
  void tell(std::vector<Done> done);
  void fail_all(const std::exception_ptr& error);
  void start(Request& request, banyan_collective_t collective, void* memory, size_t bytes,
             int peer);
  bool ended(Request& request);
  void drop(Request& request);
  bool busy() const;

  std::unique_ptr<Comm> comm_;
  const int rank_, size_;
  DeviceStreams& streams_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::deque<std::unique_ptr<Sending>>> sends_;  // by peer
  std::list<Waiting> waiting_;
  std::list<Waiting> held_;  // until their streams have got there
  std::list<Arrived> arrived_;
  std::vector<Incoming> incoming_;  // by peer; only the thread uses it
  std::vector<Done> done_;          // told outside the lock
  std::exception_ptr failure_;
  bool stopping_ = false;
  std::thread thread_;  // from the first message on
};

}  // namespace banyan::process_group
