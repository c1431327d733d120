// SPDX-License-Identifier: Apache-2.0

#include "algorithms/cost/cost_rounds.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace banyan {
namespace {

constexpr int kSamples = 64;

// Null: the model has nothing of that level.
const TierCost* tier_of(const CostModel& model, const Site& site, int level) {
  const auto found =
      std::find_if(model.tiers.begin(), model.tiers.end(),
                   [&](const TierCost& tier) { return tier.name == site.levels().name(level); });
  return found == model.tiers.end() ? nullptr : &*found;
}

bool lies_in_order(const Hierarchy& levels, int level) {
  const int size = levels.largest_part(level);
  if (levels.smallest_part(level) != size) return false;
  for (const int part : {0, levels.parts(level) / 2, levels.parts(level) - 1}) {
    const auto members = levels.members(level, part);
    if (members.front() != part * size || members.back() != (part + 1) * size - 1) return false;
  }
  return true;
}

}  // namespace

int Reach::levels() const {
  const auto none = [](double share) { return !(share > 0); };
  return static_cast<int>(std::find_if_not(beyond.rbegin(), beyond.rend(), none).base() -
                          beyond.begin());
}

Site::Site(int ranks, const Hierarchy* hierarchy) : ranks_(ranks), largest_(ranks) {
  if (hierarchy == nullptr || hierarchy->depth() == 0 || hierarchy->parts(0) == 1) return;
  levels_ = hierarchy;
  hosts_ = hierarchy->parts(0);
  largest_ = hierarchy->largest_part(0);
  depth_ = std::min(hierarchy->depth(), kMostCostLevels);
  for (int level = 0; level < depth_; ++level)
    in_order_[static_cast<size_t>(level)] = lies_in_order(*hierarchy, level);
}

double Site::mean_part(int level) const {
  return static_cast<double>(ranks_) / levels_->parts(level);
}

// As if all parts of the lower level were alike.
int Site::parts_within(int level, int above) const {
  const double share = static_cast<double>(levels_->largest_part(above)) / ranks_;
  return std::max(static_cast<int>(std::lround(share * levels_->parts(level))), 1);
}

template <typename Share>
Reach Site::reach_of(Share share) const {
  Reach reach;
  for (int level = 0; level < depth_; ++level)
    reach.beyond[static_cast<size_t>(level)] = share(level);
  reach.busiest = reach.beyond;
  return reach;
}

template <typename Share>
Reach Site::reach_of_shift(int distance, Share share) const {
  Reach reach = reach_of(share);
  for (int level = 0; level < depth_; ++level) {
    const int largest = levels_->largest_part(level);
    if (levels_->smallest_part(level) == largest) continue;
    double& busiest = reach.busiest[static_cast<size_t>(level)];
    busiest = std::max(busiest, std::min({distance, largest, ranks_ - largest}) / mean_part(level));
  }
  return reach;
}

template <typename Partner>
double Site::sampled(int level, int places, Partner partner) const {
  const int samples = std::min(places, kSamples);
  int leaving = 0;
  for (int i = 0; i < samples; ++i) {
    const auto place = static_cast<int>(static_cast<int64_t>(i) * places / samples);
    leaving +=
        static_cast<int>(levels_->part_of(level, place) != levels_->part_of(level, partner(place)));
  }
  return static_cast<double>(leaving) / samples;
}

Reach Site::far(int distance) const {
  const int way = std::min(distance, ranks_ - distance);
  return reach_of_shift(way, [&](int level) {
    if (!in_order_[static_cast<size_t>(level)])
      return sampled(level, ranks_, [&](int place) {
        return static_cast<int>((static_cast<int64_t>(place) + distance) % ranks_);
      });
    const int size = levels_->largest_part(level);
    return size == ranks_ ? 0 : static_cast<double>(std::min(way, size)) / size;
  });
}

// Places beyond the last power of two take no part.
Reach Site::far_by_bit(int bit) const {
  const auto core = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks_)));
  return reach_of_shift(bit, [&](int level) {
    const int size = levels_->largest_part(level);
    if (in_order_[static_cast<size_t>(level)] && size % (2 * bit) == 0) return 0.0;
    return sampled(level, core, [&](int place) { return place ^ bit; });
  });
}

Reach Site::far_in_ring() const {
  return reach_of([&](int level) {
    const int parts = levels_->parts(level);
    return parts == 1 ? 0 : static_cast<double>(parts) / ranks_;
  });
}

// The busiest part is the largest one: m (P - m) messages leave one of m ranks.
Reach Site::far_pairs() const {
  Reach reach = reach_of([&](int level) {
    return static_cast<double>(ranks_ - levels_->largest_part(level)) / (ranks_ - 1);
  });
  for (int level = 0; level < depth_; ++level)
    reach.busiest[static_cast<size_t>(level)] *= levels_->largest_part(level) / mean_part(level);
  return reach;
}

Reach Site::far_from(int rank) const {
  return reach_of([&](int level) {
    const auto part = levels_->members(level, levels_->part_of(level, rank));
    return static_cast<double>(ranks_ - static_cast<int>(part.size())) / (ranks_ - 1);
  });
}

Reach Site::across(int level) const {
  return reach_of([&](int each) { return each <= level ? 1.0 : 0.0; });
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

namespace {

double alpha_beyond(const CostModel& model, const Site& site, int levels) {
  double alpha = number((levels == 0 ? model.within : model.between).alpha);
  for (int level = 1; level < levels; ++level)
    if (const TierCost* tier = tier_of(model, site, level); tier != nullptr)
      alpha = number(tier->alpha);
  return alpha;
}

}  // namespace

double latency(const CostModel& model, const Site& site, int levels) {
  const double cores = cores_of(model, site) / site.hosts();
  const double others = site.largest() / cores - 1;
  return alpha_beyond(model, site, levels) + others * number(model.turn);
}

double uplink_byte(const CostModel& model, const Site& site, int level) {
  const TierCost* tier = level == 0 ? nullptr : tier_of(model, site, level);
  return tier == nullptr ? 0 : number(tier->uplink_byte);
}

double least_byte(const CostModel& model, const Site& site, double cold) {
  const auto of = [&](const PairCost& cost) {
    const Figure& once = cost.given_byte.known() ? cost.given_byte : cost.long_byte;
    return std::min({number(cost.send_byte) + number(cost.recv_byte), number(cost.long_byte),
                     number(once)}) +
           cold * number(cost.far_byte);
  };
  return site.hosts() == 1 ? of(model.within) : std::min(of(model.within), of(model.between));
}

Cost::Cost(const CostModel& model, const Site& site, double buffers)
    : model_(model),
      site_(site),
      cores_(cores_of(model, site)),
      cold_(cold_share(model, site, buffers)),
      us_(number(model.call)) {
  for (int levels = 0; levels <= site.depth(); ++levels)
    alphas_[static_cast<size_t>(levels)] = latency(model, site, levels);
  for (int level = 1; level < site.depth(); ++level)
    uplinks_[static_cast<size_t>(level)] = uplink_byte(model, site, level);
}

Cost::Ends Cost::message(const PairCost& cost, double bytes, double peers, bool given) const {
  const double overhead = number(cost.overhead);
  const double lane =
      bytes * number(cost.lane_byte) / std::clamp(peers, 1.0, std::max(cost.lanes, 1.0));
  const double cold = cold_ * bytes * number(cost.far_byte) + lane;
  const Figure& once = given && cost.given_byte.known() ? cost.given_byte : cost.long_byte;
  const Ends whole{overhead + bytes * number(cost.send_byte),
                   overhead + bytes * number(cost.recv_byte) + cold, lane};
  const Ends taken{overhead, overhead + number(cost.long_overhead) + bytes * number(once) + cold,
                   lane};
  if (bytes < cost.long_least) return whole;
  return taken.send + taken.recv < whole.send + whole.recv ? taken : whole;
}

Cost::Ends Cost::message(double bytes, double far, double peers, bool given) const {
  Ends ends{0, 0};
  const auto add = [&](const Ends& each, double share) {
    ends.send += share * each.send;
    ends.recv += share * each.recv;
    ends.lane += share * each.lane;
  };
  if (far < 1) add(message(model_.within, bytes, peers, given), 1 - far);
  if (far > 0) add(message(model_.between, bytes, peers, given), far);
  return ends;
}

double Cost::mean_alpha(const Reach& far) const {
  double mean = alphas_[0];
  for (int level = 0; level < far.levels(); ++level) {
    const auto at = static_cast<size_t>(level);
    mean += far.beyond[at] * (alphas_[at + 1] - alphas_[at]);
  }
  return mean;
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

Cost::Wires Cost::on_wires(const Reach& far, double sent, double message, double active,
                           double on_host) const {
  const int levels = far.levels();
  if (levels == 0) return {};
  const double of_host = on_host > 0 ? on_host : std::max(active / site_.hosts(), 1.0);
  Wires wires{.nics = on_wire(sent * far.busiest[0] * of_host, message)};
  wires.most = wires.nics;
  for (int level = 1; level < levels; ++level) {
    const double of_part = on_host > 0 ? std::min(active, on_host * site_.parts_within(0, level))
                                       : std::max(active / site_.levels().parts(level), 1.0);
    const auto at = static_cast<size_t>(level);
    wires.most = std::max(wires.most, sent * far.busiest[at] * of_part * uplinks_[at]);
  }
  return wires;
}

void Cost::add_wires(const Wires& wires, double work) {
  us_ += std::max(work, wires.most);
  wire_ += wires.nics;
}

void Cost::add(const Round& round) {
  const Ends ends = message(round.bytes, round.far.hosts(), round.peers, round.given);
  const double recv = ends.recv + sum_of(round.summed, round.decoded);
  const double each = round.messages * (ends.send + recv);
  // Between hosts a message is received when it has been sent, in memory while it is.
  const double longer = round.waits ? std::max(ends.send, recv) : ends.send + ends.lane;
  const double shorter = round.waits && round.far.levels() > 0 ? std::min(ends.send, recv) : 0;
  const double rank = round.one_way ? round.messages * longer + shorter : each;
  const double work = std::max(rank, on_cores(each * round.active));
  const Wires wires =
      on_wires(round.far, round.messages * round.bytes, round.bytes, round.active, round.on_host);
  work_ += round.repeats * work;
  if (round.waits) wait(round.passes ? mean_alpha(round.far) : alpha(round.far));
  add_wires({round.repeats * wires.nics, round.repeats * wires.most}, round.repeats * work);
}

void Cost::add(const Round& round, double times) {
  if (times <= 0) return;
  const Cost before = *this;
  add(round);
  const auto all = [&](double was, double is) { return was + times * (is - was); };
  us_ = all(before.us_, us_);
  work_ = all(before.work_, work_);
  wire_ = all(before.wire_, wire_);
  waited_ = all(before.waited_, waited_);
}

void Cost::gather(double others, const Reach& far, double bytes, double summed, double decoded,
                  double hubs) {
  const Ends ends = message(bytes, far.hosts(), others, true);
  const double sum = sum_of(summed, decoded);
  const double hub = ends.send + others * (ends.recv + sum);
  const double work = busy(hub, hubs * others * (ends.send + ends.recv + sum));
  wait(alpha(far));
  add_wires(on_wires(far, others * bytes, bytes, 1, 1), work);
}

void Cost::scatter(double others, const Reach& far, double bytes, double hubs, bool given) {
  const Ends ends = message(bytes, far.hosts(), others, given);
  const double hub = others * (ends.send + ends.lane) + ends.recv - ends.lane;
  const double work = busy(hub, hubs * others * (ends.send + ends.recv));
  wait(alpha(far));
  add_wires(on_wires(far, others * bytes, bytes, 1, 1), work);
}

void Cost::words(double each, double active) {
  const Ends ends = message(0, site_.far_pairs().hosts(), 1, false);
  const double takes = each * (ends.send + ends.recv);
  us_ += busy(takes, takes * active);
}

void Cost::copy(double bytes, double active) {
  const double each = bytes * (number(model_.copy_byte) + cold_ * number(model_.copy_far_byte));
  us_ += busy(each, each * active);
}

void Cost::copy_beside(double bytes) {
  const double each = bytes * (number(model_.copy_byte) + cold_ * number(model_.copy_far_byte));
  us_ += busy(0, each);
}

void Cost::codec(double wide_bytes, double active) {
  const double each = wide_bytes * number(model_.codec_byte);
  us_ += busy(each, each * active);
}

double Cost::time_of(const Coded& coded) const {
  const double narrow = number(model_.codec_byte), cold = cold_ * number(model_.reduce_far_byte);
  return coded.encoded * (coded.codec.encode_byte.value.value_or(narrow) + cold) +
         coded.decoded * (coded.codec.decode_byte.value.value_or(narrow) + cold);
}

void Cost::code(const Coded& coded, double active) {
  const double each = time_of(coded);
  us_ += busy(each, each * active);
}

void Cost::code_beside(const Cost& before, const Coded& all, const Coded& first_and_last,
                       double active) {
  const double idle = (us_ - before.us_) - (waited_ - before.waited_) - (work_ - before.work_);
  const double each = time_of(all);
  us_ += std::max(busy(each, each * active) - std::max(idle, 0.0), time_of(first_and_last));
}

// One of the hops leaves all levels, others a host at most. Where hosts have several ranks, some do
// not leave theirs, and the dearer kind decides how fast the pipeline is.
void Cost::pipeline(const Pipeline& pipeline) {
  const Reach far = pipeline.far ? site_.across(site_.far_pairs().levels() - 1) : Reach();
  const auto passed = [&](const PairCost& cost) {
    const Ends ends = message(cost, pipeline.bytes, pipeline.messages, false);
    return ends.send + ends.recv + sum_of(pipeline.summed, 0);
  };
  const double near = passed(model_.within);
  const double away = pipeline.far ? passed(model_.between) : near;
  const double one = site_.largest() > 1 ? std::max(near, away) : away;
  const double leaving = site_.far_in_ring().hosts();
  const double mean = leaving * away + (1 - leaving) * near;
  const double wire_piece = pipeline.far ? on_wire(0, pipeline.bytes) : 0;
  const double filling =
      (pipeline.hops - 1) * (alphas_[pipeline.far ? 1 : 0] + std::max(one, wire_piece)) +
      alpha(far);
  const double passing = pipeline.pieces * std::max(pipeline.messages * one, wire_piece);
  const double work = busy(pipeline.pieces * pipeline.messages * one,
                           pipeline.pieces * pipeline.all_messages * mean);
  add_wires(on_wires(far, pipeline.wire_bytes, 0, 1, 1), std::max(filling + passing, work));
}

}  // namespace banyan
