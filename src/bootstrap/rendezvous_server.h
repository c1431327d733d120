// The server of one rendezvous collects the ranks, carries rounds of an allgather between them, and
// ends.
//
// Whatever goes wrong becomes one verdict that all ranks get: those who are there at once, those
// who come later when they come.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "banyan/status.h"
#include "src/base/clock.h"
#include "src/base/descriptor.h"
#include "src/base/log.h"
#include "src/bootstrap/handshake_gate.h"
#include "src/bootstrap/rendezvous_roll.h"

namespace banyan {

class RendezvousServer {
 public:
  static Result<std::unique_ptr<RendezvousServer>> create(std::vector<Descriptor> listeners,
                                                          const Key& key, TimePoint deadline,
                                                          const Log& log);
  // Serves until all members have left or the time is over.
  void run();

 private:
  struct Member {
    FrameSocket socket;
    Session session;
    int rank = 0;
    bool own = false;      // of this process, by its number; on another host it may be the same
    bool here = true;      // connected
    bool left = false;     // as planned
    bool gave = false;     // its contribution to the current round
    size_t result_at = 0;  // of the last round's result, sent so far
    uint32_t watched = 0;  // epoll events
  };

  RendezvousServer(Gate gate, Descriptor epoll, const Nonce& nonce, TimePoint deadline,
                   const Log& log)
      : gate_(std::move(gate)),
        epoll_(std::move(epoll)),
        nonce_(nonce),
        deadline_(deadline),
        log_(log) {}

  void admit(Admitted admitted);
  bool began_after_verdict(const Joiner& joiner) const;
  void pass_on(Admitted admitted);
  void ready();
  void serve(Member& member);
  Status take(Member& member, const Frame& frame);
  Status contribute(Member& member, const Frame& frame);
  void finish_round();
  void for_each_own_last(const std::function<void(Member&)>& use);
  void pump(Member& member);
  void gone(Member& member, const Status& why);
  void late();
  void look_for_room();
  void decide(Status verdict);
  void tell(Member& member);
  void watch(Member& member);
  bool over() const;

  Gate gate_;
  Descriptor epoll_;
  Nonce nonce_{};       // of this meeting; ranks may meet again with the same key
  TimePoint deadline_;  // the earliest that any member has
  TimePoint end_ = TimePoint::max();
  Log log_;
  Roll roll_;
  std::vector<std::unique_ptr<Member>> members_;  // in order of arrival
  bool ready_ = false;
  std::optional<Status> verdict_;
  TimePoint decided_;
  uint32_t round_ = 0;
  size_t given_ = 0;  // contributions to the current round
  std::vector<Bytes> contributions_;
  Bytes result_;  // of the last finished round, which was:
  uint32_t result_round_ = 0;
};

}  // namespace banyan
