// A communicator for Python. The GIL guards what it holds; the library is called without it
// wherever it may wait.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "banyan/banyan.h"

namespace banyan::python {

// What a communicator outlives: a request or a reducer.
class Dependent {
 public:
  // Before the communicator is finalized: frees what that refuses to finalize. Frees nothing, and
  // returns the failure, where the library still needs arrays.
  virtual banyan_result_t before_finalize() = 0;
  // After it was finalized or has failed: the library is done with all arrays then.
  virtual void after() noexcept = 0;

 protected:
  ~Dependent() = default;
};

class Communicator {
 public:
  explicit Communicator(banyan_comm_t handle);  // which it owns
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Throws InvalidUsage once it is closed.
  banyan_comm_t handle() const;
  bool in_use() const { return in_use_; }
  bool closed() const { return handle_ == nullptr || closed_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  int failed_rank() const;

  void abort();
  // Collective unless it has failed: finalizes, and frees.
  void close();
  // The same at the end of the interpreter, where nothing may hang: it gives up after so many
  // seconds, and at once for 0. Never throws.
  void end(double seconds) noexcept;

  void add(Dependent* dependent) { dependents_.push_back(dependent); }
  void remove(Dependent* dependent) noexcept;
  // Operations and memory end later: the thread that lets go of one may not be the one that uses
  // the communicator.
  void let_go(banyan_op_t op) { operations_.push_back(op); }
  void let_go(void* memory) noexcept;
  void keep_memory() { ++blocks_; }
  void tidy();

 private:
  friend class Use;

  banyan_result_t end_reducers();
  void end_dependents() noexcept;
  void destroy() noexcept;

  banyan_comm_t handle_;
  int rank_ = 0, size_ = 0;
  bool in_use_ = false;
  bool closed_ = false;
  int blocks_ = 0;  // of memory that arrays lie in
  std::vector<Dependent*> dependents_;
  std::vector<banyan_op_t> operations_;
  std::vector<void*> memory_;
};

// One thread at a time uses a communicator: throws InvalidUsage if another one does.
class Use {
 public:
  explicit Use(Communicator& communicator);
  ~Use() { communicator_.in_use_ = false; }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  Communicator& communicator_;
};

bool has_failed(banyan_comm_t comm);
// Throws what a call that may have waited has failed with, KeyboardInterrupt if that is why.
void check_waited(banyan_result_t result, banyan_comm_t comm);

}  // namespace banyan::python
