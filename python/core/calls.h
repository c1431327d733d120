// A call of a collective with its arrays: checked, run at once, kept by a group, or kept as a
// request.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "banyan/banyan.h"
#include "python/core/buffers.h"
#include "python/core/communicator.h"
#include "python/core/settings.h"

namespace banyan::python {

// What the package says of a call.
struct Said {
  int collective = 0;
  pybind11::handle send, recv;  // None: this rank has none
  int op = 0;
  int root = 0;  // or the peer
  // None, or (send_counts, send_displacements, recv_counts, recv_displacements), each None or a
  // sequence.
  pybind11::handle lists = Py_None;
  // None, or (timeout, compression, algorithm, stream): seconds, 0 for the communicator's; see
  // CompressionSetting; None or text; None or the address of a CUDA stream.
  pybind11::handle options = Py_None;
};

// It stays where it is: the call points into it.
class PreparedCall {
 public:
  // Throws ValueError or TypeError where arrays do not fit each other, the counts or the ranks.
  PreparedCall(std::shared_ptr<Communicator> communicator, const Said& said);
  PreparedCall(const PreparedCall&) = delete;
  PreparedCall& operator=(const PreparedCall&) = delete;

  const banyan_call_t& call() const { return call_; }
  Communicator& communicator() const { return *communicator_; }
  // No blocking function has them: such a call is a request.
  bool has_options() const { return has_options_; }
  // The function of the C interface for this collective, which waits, or joins a group. Needs no
  // GIL.
  banyan_result_t run(banyan_comm_t comm) const;

 private:
  void take_buffers(const Said& said);
  void take_lists(pybind11::handle lists);
  void take_options(pybind11::handle options);
  void count_by_rank();
  void count_by_lists();
  const size_t* list(size_t which) const {
    return lists_[which].empty() ? nullptr : lists_[which].data();
  }

  std::shared_ptr<Communicator> communicator_;
  Buffer send_, recv_;
  std::array<std::vector<size_t>, 4> lists_;
  CompressionSetting compression_;
  std::string algorithm_;
  banyan_call_t call_ = BANYAN_CALL_INIT;
  bool has_options_ = false;
};

// Runs it and waits, or has it join the group that this thread has open.
void run_call(const std::shared_ptr<Communicator>& communicator, const Said& said);
// What banyan_explain says of it.
std::string explain_call(const std::shared_ptr<Communicator>& communicator, const Said& said);

}  // namespace banyan::python
