// SPDX-License-Identifier: Apache-2.0

#include "python/banyan/torch/messages.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace banyan::process_group {
namespace {

using std::chrono::microseconds;

// How often the thread looks before it sleeps between looks, and how long it sleeps at most.
constexpr int kEagerLooks = 200;
constexpr microseconds kLongestNap{500};

std::exception_ptr error_of(const std::string& text) {
  try {
    C10_THROW_ERROR(DistBackendError, text);
  } catch (...) {
    return std::current_exception();
  }
}

std::string sender_name(int peer) {
  return peer == Messages::kAny ? "any rank" : "rank " + std::to_string(peer);
}

bool matches(int wanted_peer, int wanted_tag, int peer, int64_t tag) {
  return (wanted_peer == Messages::kAny || wanted_peer == peer) && wanted_tag == tag;
}

Messages::Clock::time_point deadline_in(double seconds) {
  constexpr double kNever = 1e9;  // half a life, and still a time that the clock can count to
  return Messages::Clock::now() +
         std::chrono::milliseconds(static_cast<int64_t>(std::min(seconds, kNever) * 1000));
}

}  // namespace

Messages::Messages(std::unique_ptr<Comm> comm, int rank, int size, DeviceStreams& streams)
    : comm_(std::move(comm)),
      rank_(rank),
      size_(size),
      streams_(streams),
      sends_(static_cast<size_t>(size)),
      incoming_(static_cast<size_t>(size)) {}

Messages::~Messages() {
  abort();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  for (Incoming& incoming : incoming_) {
    drop(incoming.head);
    drop(incoming.body);
  }
}

void Messages::send(const at::Tensor& tensor, int peer, int tag, WorkRef work, double timeout_s,
                    const DeviceMark& from) {
  std::unique_lock lock(mutex_);
  if (failure_) {
    const std::exception_ptr failure = failure_;
    lock.unlock();
    work->fail(failure);
    return;
  }
  auto sending = std::make_unique<Sending>();
  sending->header = {tag, static_cast<uint64_t>(tensor.nbytes())};
  sending->tensor = tensor;
  sending->work = std::move(work);
  sending->timeout_s = timeout_s;
  sending->from = from;
  sends_[static_cast<size_t>(peer)].push_back(std::move(sending));
  if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
  changed_.notify_all();
}

void Messages::recv(const at::Tensor& tensor, int peer, int tag, WorkRef work, double timeout_s,
                    const DeviceMark& from) {
  Waiting waiting{tensor, peer, tag, std::move(work), deadline_in(timeout_s), timeout_s, from};
  std::unique_lock lock(mutex_);
  const bool held = is_held(waiting, held_.end());
  const std::exception_ptr failure = failure_;
  if (!held && take_arrived(waiting)) {
    std::vector<Done> done = std::exchange(done_, {});
    lock.unlock();
    tell(std::move(done));
    return;
  }
  if (failure) {
    lock.unlock();
    waiting.work->fail(failure);
    return;
  }
  (held ? held_ : waiting_).push_back(std::move(waiting));
  if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
  changed_.notify_all();
}

bool Messages::take_arrived(Waiting& waiting) {
  const auto here = std::find_if(arrived_.begin(), arrived_.end(), [&](const Arrived& message) {
    return matches(waiting.peer, waiting.tag, message.peer, message.header.tag);
  });
  if (here == arrived_.end()) return false;
  const Arrived message = std::move(*here);
  arrived_.erase(here);
  deliver(std::move(waiting), message.header, message.bytes, message.peer);
  return true;
}

bool Messages::is_held(const Waiting& waiting, std::list<Waiting>::iterator end) {
  return !waiting.from.is_reached() || std::any_of(held_.begin(), end, [&](const Waiting& before) {
    return before.tag == waiting.tag &&
           (before.peer == waiting.peer || before.peer == kAny || waiting.peer == kAny);
  });
}

bool Messages::release_held() {
  bool moved = false;
  for (auto first = held_.begin(); first != held_.end();) {
    if (is_held(*first, first)) {
      ++first;
      continue;
    }
    if (!take_arrived(*first)) waiting_.push_back(std::move(*first));
    first = held_.erase(first);
    moved = true;
  }
  return moved;
}

void Messages::tell(std::vector<Done> done) {
  for (Done& one : done) {
    const DeviceTurn turn(one.work->device(), streams_);
    one.error ? one.work->fail(one.error) : one.work->complete();
  }
}

void Messages::abort() {
  comm_->abort();
  std::unique_lock lock(mutex_);
  if (!failure_) failure_ = error_of("banyan: the group has been destroyed or aborted");
  changed_.notify_all();
}

bool Messages::busy() const {
  return !waiting_.empty() || !held_.empty() ||
         std::any_of(sends_.begin(), sends_.end(),
                     [](const auto& queue) { return !queue.empty(); }) ||
         std::any_of(incoming_.begin(), incoming_.end(),
                     [](const Incoming& incoming) { return incoming.taker.has_value(); });
}

void Messages::serve() {
  int idle_looks = 0;
  microseconds nap{20};
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || busy(); });
    if (!busy()) return;
    bool moved = false;
    try {
      if (failure_) std::rethrow_exception(failure_);
      moved = step();
      expire(waiting_);
      expire(held_);
    } catch (...) {
      fail_all(std::current_exception());
    }
    if (!done_.empty()) {
      moved = true;
      std::vector<Done> done = std::exchange(done_, {});
      lock.unlock();
      tell(std::move(done));
      lock.lock();
    }
    if (moved) {
      idle_looks = 0;
      nap = microseconds(20);
    } else if (++idle_looks < kEagerLooks) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    } else {
      changed_.wait_for(lock, nap);
      nap = std::min(nap * 2, kLongestNap);
    }
  }
}

bool Messages::step() {
  bool moved = release_held();
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    moved |= step_sends(sends_[static_cast<size_t>(peer)], peer);
    moved |= step_incoming(incoming_[static_cast<size_t>(peer)], peer);
  }
  return moved;
}

// Messages of one tag stay in order.
bool Messages::bring_to_front(std::deque<std::unique_ptr<Sending>>& queue) {
  std::vector<int64_t> held;
  for (auto next = queue.begin(); next != queue.end(); ++next) {
    const int64_t tag = (*next)->header.tag;
    if (std::count(held.begin(), held.end(), tag) > 0) continue;
    if ((*next)->from.is_reached()) {
      std::rotate(queue.begin(), next, next + 1);
      return true;
    }
    held.push_back(tag);
  }
  return false;
}

bool Messages::step_sends(std::deque<std::unique_ptr<Sending>>& queue, int peer) {
  if (queue.empty()) return false;
  if (!queue.front()->started && !bring_to_front(queue)) return false;
  Sending& first = *queue.front();
  if (!first.started) {
    first.started = true;
    start(first.head, BANYAN_SEND, &first.header, sizeof(Header), peer);
    if (first.header.bytes > 0)
      start(first.body, BANYAN_SEND, first.tensor.data_ptr(), first.header.bytes, peer);
    return true;
  }
  if (!ended(first.head) || !ended(first.body)) return false;
  drop(first.head);
  drop(first.body);
  done_.push_back({first.work, nullptr});
  queue.pop_front();
  return true;
}

bool Messages::step_incoming(Incoming& incoming, int peer) {
  if (incoming.in_body) {
    if (!ended(incoming.body)) return false;
    drop(incoming.body);
    incoming.in_body = false;
    // A recv may have been posted since the header came.
    if (!incoming.taker) incoming.taker = taker_of(incoming.header, peer);
    if (incoming.taker) {
      deliver(std::move(*std::exchange(incoming.taker, std::nullopt)), incoming.header,
              incoming.bytes, peer);
    } else {
      arrived_.push_back({peer, incoming.header, incoming.bytes});
    }
    incoming.bytes = at::Tensor();
    return true;
  }
  if (!incoming.head.flying) {
    drop(incoming.head);
    start(incoming.head, BANYAN_RECV, &incoming.header, sizeof(Header), peer);
    return true;
  }
  if (!ended(incoming.head)) return false;
  take_header(incoming, peer);
  return true;
}

std::optional<Messages::Waiting> Messages::taker_of(const Header& header, int peer) {
  const auto found = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& waiting) {
    return matches(waiting.peer, waiting.tag, peer, header.tag);
  });
  if (found == waiting_.end()) return std::nullopt;
  std::optional<Waiting> taker = std::move(*found);
  waiting_.erase(found);
  return taker;
}

void Messages::take_header(Incoming& incoming, int peer) {
  const Header& header = incoming.header;
  incoming.taker = taker_of(header, peer);
  const bool fits = incoming.taker && incoming.taker->tensor.is_contiguous() &&
                    incoming.taker->tensor.nbytes() == header.bytes;
  incoming.bytes =
      fits ? incoming.taker->tensor : at::empty({static_cast<int64_t>(header.bytes)}, at::kByte);
  incoming.in_body = true;
  if (header.bytes > 0)
    start(incoming.body, BANYAN_RECV, incoming.bytes.data_ptr(), header.bytes, peer);
}

void Messages::deliver(Waiting waiting, const Header& header, const at::Tensor& bytes, int peer) {
  const at::Tensor& tensor = waiting.tensor;
  waiting.work->set_source(peer);
  if (tensor.nbytes() != header.bytes) {
    done_.push_back(
        {waiting.work, error_of("banyan recv: rank " + std::to_string(peer) + " sent " +
                                std::to_string(header.bytes) + " bytes with tag " +
                                std::to_string(header.tag) + " and the tensor has " +
                                std::to_string(tensor.nbytes()) + "; valid: the same size")});
    return;
  }
  if (header.bytes > 0 && !bytes.is_same(tensor)) {
    const c10::NoGradGuard no_grad;
    const at::AutoDispatchBelowADInplaceOrView as_memory;  // so that it may be of inference mode
    const DeviceTurn turn(waiting.work->device(), streams_);
    tensor.copy_(bytes.view(tensor.scalar_type()).view(tensor.sizes()));
  }
  done_.push_back({waiting.work, nullptr});
}

void Messages::expire(std::list<Waiting>& list) {
  const Clock::time_point now = Clock::now();
  for (auto waiting = list.begin(); waiting != list.end();) {
    if (waiting->deadline > now) {
      ++waiting;
      continue;
    }
    done_.push_back(
        {waiting->work, error_of("banyan recv: Timed out waiting: " + sender_name(waiting->peer) +
                                 " has sent nothing with tag " + std::to_string(waiting->tag) +
                                 " in " + std::to_string(waiting->timeout_s) + " s")});
    waiting = list.erase(waiting);
  }
}

void Messages::fail_all(const std::exception_ptr& error) {
  if (!failure_) failure_ = error;
  comm_->abort();
  for (auto& queue : sends_) {
    for (auto& sending : queue) {
      drop(sending->head);
      drop(sending->body);
      done_.push_back({sending->work, failure_});
    }
    queue.clear();
  }
  for (Incoming& incoming : incoming_) {
    drop(incoming.body);
    drop(incoming.head);
    if (incoming.taker) done_.push_back({incoming.taker->work, failure_});
    incoming.taker.reset();
    incoming.in_body = false;
  }
  for (auto* list : {&waiting_, &held_}) {
    for (Waiting& waiting : *list) done_.push_back({waiting.work, failure_});
    list->clear();
  }
}

void Messages::start(Request& request, banyan_collective_t collective, void* memory, size_t bytes,
                     int peer) {
  banyan_call_t call = BANYAN_CALL_INIT;
  call.collective = collective;
  call.send = call.recv = memory;
  call.count = bytes;
  call.datatype = BANYAN_UINT8;
  call.root = peer;
  // Nobody knows when a rank will have something to say.
  if (collective == BANYAN_RECV && bytes == sizeof(Header))
    call.timeout_s = std::numeric_limits<double>::infinity();
  const char* what = collective == BANYAN_SEND ? "send" : "recv";
  check(banyan_request_create(comm_->handle(), &call, &request.handle), what, comm_->handle());
  check(banyan_request_start(request.handle), what, comm_->handle());
  request.flying = true;
}

bool Messages::ended(Request& request) {
  if (!request.flying) return true;
  int done = 0;
  check(banyan_request_test(request.handle, &done), "message", comm_->handle());
  if (done == 0) return false;
  request.flying = false;
  return true;
}

void Messages::drop(Request& request) {
  if (request.handle != nullptr) (void)banyan_request_destroy(request.handle);
  request = {};
}

}  // namespace banyan::process_group
