// SPDX-License-Identifier: Apache-2.0

#include "python/core/calls.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "python/core/datatypes.h"
#include "python/core/dispatch.h"
#include "python/core/errors.h"
#include "python/core/requests.h"
#include "python/core/waiting.h"

namespace py = pybind11;

namespace banyan::python {
namespace {

enum List { kSendCounts, kSendPlaces, kRecvCounts, kRecvPlaces };
constexpr std::array<const char*, 4> kListNames = {"send_counts", "send_displacements",
                                                   "recv_counts", "recv_displacements"};

[[noreturn]] void wrong(const std::string& text) {
  throw py::value_error(text);
}

std::string elements(const char* who, size_t count) {
  return std::string(who) + " has " + std::to_string(count) + " elements";
}

void expect_count(const char* who, size_t has, size_t right, const std::string& why) {
  if (has != right) wrong(elements(who, has) + "; right is " + std::to_string(right) + ": " + why);
}

size_t times(size_t count, int ranks) {
  size_t all = 0;
  if (__builtin_mul_overflow(count, static_cast<size_t>(ranks), &all))
    wrong("so many elements fit into no memory");
  return all;
}

// How many elements the blocks need, wherever they lie.
size_t extent(const std::vector<size_t>& counts, const std::vector<size_t>& places) {
  size_t end = 0, packed = 0;
  for (size_t r = 0; r < counts.size(); ++r) {
    size_t last = 0;
    if (__builtin_add_overflow(places.empty() ? packed : places[r], counts[r], &last))
      wrong("so many elements fit into no memory");
    packed = last;
    end = std::max(end, last);
  }
  return end;
}

// Arrays that a rank must have. By collective, and by whether it is the root.
struct Needs {
  bool send, recv;
};

Needs needs_of(banyan_collective_t collective, bool is_root) {
  switch (collective) {
    case BANYAN_BARRIER: return {false, false};
    case BANYAN_SEND: return {true, false};
    case BANYAN_RECV: return {false, true};
    case BANYAN_REDUCE:
    case BANYAN_GATHER: return {true, is_root};
    case BANYAN_BROADCAST:
    case BANYAN_SCATTER: return {is_root, true};
    case BANYAN_ALLREDUCE:
    case BANYAN_ALLGATHER:
    case BANYAN_ALLGATHERV:
    case BANYAN_REDUCE_SCATTER:
    case BANYAN_REDUCE_SCATTERV:
    case BANYAN_ALLTOALL:
    case BANYAN_ALLTOALLV: return {true, true};
  }
  wrong("collective " + std::to_string(collective) + " is none");
}

}  // namespace

PreparedCall::PreparedCall(std::shared_ptr<Communicator> communicator, const Said& said)
    : communicator_(std::move(communicator)) {
  (void)communicator_->handle();
  call_.collective = static_cast<banyan_collective_t>(said.collective);
  call_.op = said.op;
  call_.root = said.root;
  if (!said.lists.is_none()) take_lists(said.lists);
  if (!said.options.is_none()) take_options(said.options);
  take_buffers(said);
  if (said.lists.is_none())
    count_by_rank();
  else
    count_by_lists();
}

// An array that is both input and output is taken once, to write to.
void PreparedCall::take_buffers(const Said& said) {
  const Needs needs = needs_of(call_.collective, call_.root == communicator_->rank());
  if (needs.send && said.send.is_none()) wrong("this rank gives values, and array is None");
  if (needs.recv && said.recv.is_none()) wrong("this rank gets values, and out is None");
  const bool one = needs.recv && said.recv.is(said.send);
  if (needs.send && !one) send_ = Buffer(said.send, Access::kRead, "array");
  if (needs.recv)
    recv_ =
        Buffer(said.recv, Access::kWrite, one || call_.collective == BANYAN_RECV ? "array" : "out");
  const Buffer& first = send_.given() ? send_ : recv_;
  if (send_.given() && recv_.given() && send_.type() != recv_.type())
    throw py::type_error("array has elements of " + std::string(name_of(send_.type())) +
                         ", out of " + std::string(name_of(recv_.type())) +
                         ": they must be of one type");
  call_.datatype = first.type();
  call_.send = one ? recv_.data() : send_.data();
  call_.recv = recv_.data();
}

void PreparedCall::take_lists(py::handle lists) {
  const auto given = py::cast<py::tuple>(lists);
  for (size_t which = 0; which < lists_.size(); ++which) {
    if (given[which].is_none()) continue;
    for (const py::handle each : py::reinterpret_borrow<py::object>(given[which])) {
      const Py_ssize_t number = PyNumber_AsSsize_t(each.ptr(), PyExc_OverflowError);
      if (number == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
      if (number < 0)
        wrong(std::string(kListNames[which]) + " has " + std::to_string(number) +
              "; valid: 0 or more elements");
      lists_[which].push_back(static_cast<size_t>(number));
    }
    if (lists_[which].size() != static_cast<size_t>(communicator_->size()))
      wrong(std::string(kListNames[which]) + " has " + std::to_string(lists_[which].size()) +
            " entries; right is " + std::to_string(communicator_->size()) + ", one for each rank");
  }
  call_.send_counts = list(kSendCounts);
  call_.send_displacements = list(kSendPlaces);
  call_.recv_counts = list(kRecvCounts);
  call_.recv_displacements = list(kRecvPlaces);
}

void PreparedCall::take_options(py::handle options) {
  const auto given = py::cast<py::tuple>(options);
  call_.timeout_s = py::cast<double>(given[0]);
  compression_.set(given[1]);
  call_.compression = compression_.get();
  if (!given[2].is_none()) {
    algorithm_ = py::cast<std::string>(given[2]);
    call_.algorithm = algorithm_.c_str();
  }
  if (!given[3].is_none()) {
    call_.on_stream = 1;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): Python's programs have addresses as numbers
    call_.stream = reinterpret_cast<void*>(py::cast<uintptr_t>(given[3]));
  }
  has_options_ = true;
}

void PreparedCall::count_by_rank() {
  const int ranks = communicator_->size();
  const size_t sent = send_.given() ? send_.count() : recv_.count();
  switch (call_.collective) {
    case BANYAN_ALLGATHER:
    case BANYAN_GATHER:
      call_.count = sent;
      if (recv_.given())
        expect_count("out", recv_.count(), times(sent, ranks), "one array of each rank");
      break;
    case BANYAN_REDUCE_SCATTER:
    case BANYAN_SCATTER:
      call_.count = recv_.count();
      if (send_.given())
        expect_count("array", send_.count(), times(call_.count, ranks),
                     "what out has, for each rank");
      break;
    case BANYAN_ALLTOALL:
      if (sent % static_cast<size_t>(ranks) != 0)
        wrong(elements("array", sent) + "; right is a multiple of the " + std::to_string(ranks) +
              " ranks");
      call_.count = sent / static_cast<size_t>(ranks);
      expect_count("out", recv_.count(), sent, "as many as array");
      break;
    case BANYAN_ALLREDUCE:
    case BANYAN_REDUCE:
    case BANYAN_BROADCAST:
    case BANYAN_SEND:
    case BANYAN_RECV:
      call_.count = sent;
      if (send_.given() && recv_.given())
        expect_count("out", recv_.count(), sent, "as many as array");
      break;
    case BANYAN_BARRIER: break;
    case BANYAN_ALLGATHERV:
    case BANYAN_REDUCE_SCATTERV:
    case BANYAN_ALLTOALLV: wrong("this call needs the counts of all ranks");
  }
}

void PreparedCall::count_by_lists() {
  const auto rank = static_cast<size_t>(communicator_->rank());
  const std::vector<size_t>& counts = lists_[kRecvCounts];
  if (counts.empty()) wrong("recv_counts is None; right is one count for each rank");
  const size_t sent = send_.given() ? send_.count() : recv_.count();
  if (call_.collective == BANYAN_ALLGATHERV) {
    call_.count = sent;
    expect_count("array", sent, counts[rank], "what recv_counts has for this rank");
  } else if (call_.collective == BANYAN_REDUCE_SCATTERV) {
    expect_count("array", sent, extent(counts, {}), "the sum of recv_counts");
    expect_count("out", recv_.count(), counts[rank], "what recv_counts has for this rank");
    return;
  } else {
    if (lists_[kSendCounts].empty()) wrong("send_counts is None; right is one count for each rank");
    const size_t read = extent(lists_[kSendCounts], lists_[kSendPlaces]);
    if (sent < read)
      wrong(elements("array", sent) + ", and the blocks of send_counts end after " +
            std::to_string(read));
  }
  const size_t written = extent(counts, lists_[kRecvPlaces]);
  if (recv_.count() < written)
    wrong(elements("out", recv_.count()) + ", and the blocks of recv_counts end after " +
          std::to_string(written));
}

banyan_result_t PreparedCall::run(banyan_comm_t comm) const {
  return dispatch(call_, comm);
}

void run_call(const std::shared_ptr<Communicator>& communicator, const Said& said) {
  if (Group* group = Group::of_thread(); group != nullptr) {
    group->join(std::make_unique<PreparedCall>(communicator, said));
    return;
  }
  const PreparedCall prepared(communicator, said);
  const banyan_comm_t comm = communicator->handle();
  const Use use(*communicator);
  if (!prepared.has_options()) {
    check_waited(wait_for(comm, [&] { return prepared.run(comm); }), comm);
    return;
  }
  const OpenRequest request(comm, prepared.call());
  check(banyan_request_start(request.handle()), comm);
  check_waited(wait_for(comm, [&] { return banyan_request_wait(request.handle()); }), comm);
}

std::string explain_call(const std::shared_ptr<Communicator>& communicator, const Said& said) {
  const PreparedCall prepared(communicator, said);
  const banyan_comm_t comm = communicator->handle();
  const Use use(*communicator);
  size_t bytes = 0;
  check(banyan_explain(comm, &prepared.call(), nullptr, &bytes), comm);
  std::string text(bytes, '\0');
  check(banyan_explain(comm, &prepared.call(), text.data(), &bytes), comm);
  text.resize(std::string_view(text.c_str()).size());
  return text;
}

}  // namespace banyan::python
