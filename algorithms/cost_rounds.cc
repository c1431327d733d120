// SPDX-License-Identifier: Apache-2.0

#include "algorithms/cost_rounds.h"

#include <algorithm>
#include <cmath>

namespace banyan {
namespace {

constexpr int kSamples = 64;

bool lies_in_order(const Hierarchy& levels) {
  const int size = levels.largest_part(0);
  if (levels.smallest_part(0) != size) return false;
  for (const int part : {0, levels.parts(0) / 2, levels.parts(0) - 1}) {
    const auto members = levels.members(0, part);
    if (members.front() != part * size || members.back() != (part + 1) * size - 1) return false;
  }
  return true;
}

}  // namespace

Site::Site(int ranks, const Hierarchy* hierarchy) : ranks_(ranks), largest_(ranks) {
  if (hierarchy == nullptr || hierarchy->depth() == 0) return;
  levels_ = hierarchy;
  hosts_ = hierarchy->parts(0);
  largest_ = hierarchy->largest_part(0);
  in_order_ = lies_in_order(*hierarchy);
}

double Site::far(int distance) const {
  if (hosts_ == 1) return 0;
  if (in_order_) {
    const int way = std::min(distance, ranks_ - distance);
    return static_cast<double>(std::min(way, largest_)) / largest_;
  }
  const int samples = std::min(ranks_, kSamples);
  int leaving = 0;
  for (int i = 0; i < samples; ++i) {
    const auto place = static_cast<int>(static_cast<int64_t>(i) * ranks_ / samples);
    const int other = static_cast<int>((static_cast<int64_t>(place) + distance) % ranks_);
    leaving += static_cast<int>(levels_->part_of(0, place) != levels_->part_of(0, other));
  }
  return static_cast<double>(leaving) / samples;
}

double Site::far_pairs() const {
  if (hosts_ == 1) return 0;
  return static_cast<double>(ranks_ - largest_) / (ranks_ - 1);
}

double cores_of(const CostModel& model, const Site& site) {
  const double largest = site.largest();
  const double each = model.cores == 0 ? largest : std::min(model.cores, largest);
  return each * site.hosts();
}

double cold_share(const CostModel& model, const Site& site, double buffers) {
  const double all = buffers * site.largest();
  if (model.cache_bytes == 0 || all <= model.cache_bytes) return 0;
  return 1 - model.cache_bytes / all;
}

double latency(const CostModel& model, const Site& site, bool far) {
  const double cores = cores_of(model, site) / site.hosts();
  const double others = site.largest() / cores - 1;
  return number((far ? model.between : model.within).alpha) + others * number(model.turn);
}

double least_byte(const CostModel& model, const Site& site, double cold) {
  const auto of = [&](const LinkCost& link) {
    return std::min(number(link.send_byte) + number(link.recv_byte), number(link.long_byte)) +
           cold * number(link.far_byte);
  };
  return site.hosts() == 1 ? of(model.within) : std::min(of(model.within), of(model.between));
}

Cost::Cost(const CostModel& model, const Site& site, double buffers)
    : model_(model),
      site_(site),
      cores_(cores_of(model, site)),
      cold_(cold_share(model, site, buffers)),
      alpha_near_(latency(model, site, false)),
      alpha_far_(latency(model, site, true)),
      us_(number(model.call)) {}

Cost::Ends Cost::message(const LinkCost& link, double bytes) const {
  const double overhead = number(link.overhead);
  const double cold = cold_ * bytes * number(link.far_byte);
  const Ends whole{overhead + bytes * number(link.send_byte),
                   overhead + bytes * number(link.recv_byte) + cold};
  const Ends taken{overhead,
                   overhead + number(link.long_overhead) + bytes * number(link.long_byte) + cold};
  return taken.send + taken.recv < whole.send + whole.recv ? taken : whole;
}

Cost::Ends Cost::message(double bytes, double far) const {
  Ends ends{0, 0};
  if (far < 1) {
    const Ends near = message(model_.within, bytes);
    ends = {(1 - far) * near.send, (1 - far) * near.recv};
  }
  if (far > 0) {
    const Ends across = message(model_.between, bytes);
    ends.send += far * across.send;
    ends.recv += far * across.recv;
  }
  return ends;
}

double Cost::sum_of(double summed, double decoded) const {
  return (summed + decoded) * cold_ * number(model_.reduce_far_byte) +
         summed * number(model_.reduce_byte) + decoded * number(model_.codec_byte);
}

double Cost::busy(double core, double all) {
  const double takes = std::max(core, on_cores(all));
  work_ += takes;
  return takes;
}

// A message goes over one NIC.
double Cost::on_wire(double bytes, double largest_message) const {
  const double nics = std::max(model_.nics, 1.0);
  return std::max(bytes / nics, largest_message) * number(model_.wire_byte);
}

void Cost::add(const Round& round) {
  const Ends ends = message(round.bytes, round.far);
  const double recv = ends.recv + sum_of(round.summed, round.decoded);
  const double each = round.messages * (ends.send + recv);
  const double longer = round.waits ? std::max(ends.send, recv) : ends.send;
  const double rank = round.one_way ? round.messages * longer : each;
  const double work = std::max(rank, on_cores(each * round.active));
  work_ += round.repeats * work;
  double takes = work;
  if (round.far > 0)
    takes = std::max(takes,
                     on_wire(round.messages * round.far * round.bytes *
                                 (round.on_host > 0 ? round.on_host : round.active / site_.hosts()),
                             round.bytes));
  us_ += (round.waits ? alpha(round.far > 0) : 0) + round.repeats * takes;
}

void Cost::add(const Round& round, double times) {
  if (times <= 0) return;
  const double before = us_;
  const double work_before = work_;
  add(round);
  us_ = before + times * (us_ - before);
  work_ = work_before + times * (work_ - work_before);
}

void Cost::gather(double others, double far, double bytes, double summed, double decoded,
                  double hubs) {
  const Ends ends = message(bytes, far);
  const double sum = sum_of(summed, decoded);
  const double hub = ends.send + others * (ends.recv + sum);
  const double work = busy(hub, hubs * others * (ends.send + ends.recv + sum));
  us_ += alpha(far > 0) + std::max(work, on_wire(others * far * bytes, far > 0 ? bytes : 0));
}

void Cost::scatter(double others, double far, double bytes, double hubs) {
  const Ends ends = message(bytes, far);
  const double hub = others * ends.send + ends.recv;
  const double work = busy(hub, hubs * others * (ends.send + ends.recv));
  us_ += alpha(far > 0) + std::max(work, on_wire(others * far * bytes, far > 0 ? bytes : 0));
}

void Cost::words(double each, double active) {
  const Ends ends = message(0, site_.far_pairs());
  const double takes = each * (ends.send + ends.recv);
  us_ += busy(takes, takes * active);
}

void Cost::copy(double bytes, double active) {
  const double each = bytes * (number(model_.copy_byte) + cold_ * number(model_.copy_far_byte));
  us_ += busy(each, each * active);
}

void Cost::codec(double wide_bytes, double active) {
  const double each = wide_bytes * number(model_.codec_byte);
  us_ += busy(each, each * active);
}

void Cost::stream(const Stream& stream) {
  const Ends ends = message(stream.bytes, stream.far ? 1 : 0);
  const double one = ends.send + ends.recv + sum_of(stream.summed, 0);
  const double wire_piece = stream.far ? on_wire(0, stream.bytes) : 0;
  const double filling =
      stream.hops * alpha(stream.far) + (stream.hops - 1) * std::max(one, wire_piece);
  const double passing = stream.pieces * std::max(stream.messages * one, wire_piece);
  const double work =
      busy(stream.pieces * stream.messages * one, stream.pieces * stream.all_messages * one);
  us_ += std::max({filling + passing, work, stream.far ? on_wire(stream.wire_bytes, 0) : 0});
}

}  // namespace banyan
