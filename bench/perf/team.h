// A team is the local ranks of a program's -n: children of one parent that only supervises.
//
// They are forked before any thread exists. A shared page hands the unique id of rank 0 to the
// others and brings their last words back, so that a failure of all is told once.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <signal.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/banyan.h"
#include "banyan/status.h"
#include "src/base/clock.h"
#include "src/base/descriptor.h"

namespace banyan::perf {

class Team {
 public:
  // `program` is for what it says on stderr.
  static Result<std::unique_ptr<Team>> create(int size, std::string_view program = "banyan_perf");
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team();

  // Returns in the parent with -1 and in each child with its rank. A failure: no child is left.
  Result<int> start();

  // Waits, in the parent, for all of them, passes SIGINT and SIGTERM on, ends those that outlive a
  // failed one, and says on stderr what went wrong. Gives the exit status.
  int supervise();

  // In the children. Rank 0 gives the id, or says that there is none; the others wait for that.
  void give_id(const banyan_unique_id_t* id);
  Result<banyan_unique_id_t> take_id();
  void leave_words(int rank, std::string_view text);

  int size() const { return size_; }

 private:
  struct Board;
  struct Child {
    pid_t pid = -1;
    bool ended = false;
    bool ended_by_us = false;
    int wait_status = 0;
  };

  Team() = default;
  void signal_all(int number, bool ours);
  void reap();
  bool all_ended() const;
  bool any_failed() const;
  void be_child(pid_t parent);
  int verdict() const;
  void tell() const;

  int size_ = 0;
  std::string program_;
  Board* board_ = nullptr;  // shared memory
  size_t board_bytes_ = 0;
  Descriptor id_is_there_;  // eventfd, one count for each rank that waits
  sigset_t watched_{};
  sigset_t mask_before_{};
  std::vector<Child> children_;
  int interrupted_by_ = 0;
};

}  // namespace banyan::perf
