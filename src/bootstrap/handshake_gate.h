// The server's end of many connections accepts, shakes hands, and gives out those who know the key.
//
// Strangers cost little and delay nobody. At most 64 connections have not shown that they know the
// key, and each has 2 s and 512 bytes. Beyond that one goes: among those that have said nothing
// valid, the longest waiting one from the address that has the most of them.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <list>
#include <vector>

#include "banyan/status.h"
#include "src/base/clock.h"
#include "src/base/descriptor.h"
#include "src/base/log.h"
#include "src/bootstrap/frame_socket.h"
#include "src/bootstrap/handshake.h"
#include "src/bootstrap/rendezvous.h"

namespace banyan {

inline constexpr size_t kHalfOpenMost = 64;
inline constexpr std::chrono::milliseconds kHandshakePatience{2000};

struct Admitted {
  FrameSocket socket;
  Session session;
  Joiner joiner;
  Address from;           // all zeros for AF_UNIX
  uint32_t peer_pid = 0;  // AF_UNIX: as the kernel says; 0: unknown from here
};

class Gate {
 public:
  // Listeners are non-blocking, TCP or AF_UNIX; of the latter only this user's processes get in.
  static Result<Gate> create(std::vector<Descriptor> listeners, const HandshakeTerms& terms,
                             const Log& log,
                             std::chrono::milliseconds patience = kHandshakePatience);
  Gate(Gate&&) = default;
  ~Gate() { close(); }

  int descriptor() const { return epoll_.get(); }  // readable when serve() has something to do
  TimePoint next() const;                          // when it has in any case
  void serve(std::vector<Admitted>& admitted);
  // A descriptor was missing for a newcomer, and the gate itself holds none that it could give up.
  bool starved() const { return starved_; }
  // Nobody comes any more. Who is half way in is dropped.
  void close();

 private:
  struct HalfOpen {
    FrameSocket socket;
    ServerHandshake handshake;
    Address from;
    uint32_t pid = 0;
    TimePoint since;
    uint64_t id = 0;
    bool greeted = false;  // its hello was valid
  };

  Gate() = default;
  bool watch(int descriptor, uint64_t id, bool on) const;
  void accept_some(size_t listener, std::vector<Admitted>& admitted);
  void start(Descriptor socket, std::vector<Admitted>& admitted);
  bool make_room(Clock::duration least_age);
  // Reads what is there. False: that connection is no longer half open.
  bool advance(HalfOpen& connection, std::vector<Admitted>& admitted);
  void advance(uint64_t id, std::vector<Admitted>& admitted);
  void expire();
  void pause();
  void resume();
  void report(const HalfOpen& connection, const Status& why);
  void refuse_one(int listener);

  std::vector<Descriptor> listeners_;
  Descriptor epoll_;
  Descriptor reserve_;  // given up for a moment when there are no descriptors left
  HandshakeTerms terms_;
  Log log_;
  std::chrono::milliseconds patience_ = kHandshakePatience;
  std::list<HalfOpen> half_open_;  // oldest first
  uint64_t next_id_ = 0;
  bool paused_ = false;  // not accepting, until then:
  TimePoint resume_at_;
  uint64_t refused_ = 0;
  bool warned_ = false;
  bool starved_ = false;
};

}  // namespace banyan
