// Finds how long schedules take on a machine that is described by a few measured figures: a
// simulation of messages on cores and wires that are busy with one thing at a time.
//
// The model is LogGP (Alexandrov et al., SPAA 1995) with gaps where they arise: a core does one
// piece of work at a time, a host's wire carries one message at a time in each direction, and so
// does the uplink of what hosts are joined by, a leaf switch or a pod. What competes is served in
// the order in which it could begin. The same schedules that are executed are simulated, so an
// algorithm needs no formula of its own. A codec's message is taken to be as long as it can be, and
// its steps to take what other conversions do. Pure; not for the path of a call.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/schedule.h"

namespace banyan {

// What a message takes between two ranks. Times are in seconds.
struct MessageCost {
  double latency = 0;    // from the first byte's leaving to its arrival
  double send = 0;       // on the sender's core, whatever its length
  double recv = 0;       // on the receiver's core
  double send_byte = 0;  // on the sender's core, of one byte
  double recv_byte = 0;
  double wire_byte = 0;  // on the wires that it crosses; 0: it crosses none
  // The receiver works on what has arrived as soon as it is so many bytes, or the whole message.
  uint64_t portion = 64 * 1024;
};

// What steps take that are no messages, on the core of their rank.
struct WorkCost {
  double call = 0;         // what begins and ends a call
  double copy_byte = 0;    // kCopy, of one byte
  double reduce_byte = 0;  // of one byte of result: kReduce and, with what follows, a message's sum
  double codec_byte = 0;   // kEncode, kDecode, kDecodeAdd: of one byte of the wider type
};

// Where a rank is. Ranks of one core share its time; ranks of one host share its wire.
struct Seat {
  int core = 0;  // counted over all hosts
  int host = 0;
};

// A tier is a level above hosts. A message between two of its parts goes over the uplink out of the
// one and that into the other, beside those of the tiers below and the hosts' wires. An uplink that
// is faster than the wires before it carries what it has in turns.
struct SimulatedTier {
  std::vector<int> part_of_host;  // of every host; those that share it share that of the next tier
  double latency = 0;             // of messages for which this is the highest tier that they cross
  double wire_byte = 0;           // on an uplink, of one byte; 0: no limit
};

struct SimulatedMachine {
  std::vector<Seat> seats;      // by rank
  MessageCost within, between;  // of messages between ranks of one host, of two
  WorkCost work;
  std::vector<SimulatedTier> tiers;  // the lowest first
};

struct Simulated {
  double seconds = 0;       // until the last rank is done
  double busiest_core = 0;  // seconds of work of the core that has most
  double busiest_wire = 0;  // of the wire or uplink and direction that carries longest
  uint64_t wire_bytes = 0;  // that cross between hosts
  uint64_t unfinished = 0;  // steps that wait for each other in a circle; 0 for a correct schedule
};

// `schedules[r]` is rank r's, one for each seat.
Simulated simulate(std::span<const Schedule> schedules, const SimulatedMachine& machine);

}  // namespace banyan
