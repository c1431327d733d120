// SPDX-License-Identifier: Apache-2.0

#include "bench/info/meeting.h"

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "banyan/banyan.h"
#include "src/c_api/inspect.h"

namespace banyan::info {
namespace {

constexpr double kPatience = 5;  // seconds

// One rank. Whatever fails, the others hear of it, and nothing was measured.
MessageTimes take_part(int ranks, const banyan_unique_id_t& id, int rank) {
  banyan_config_t config = BANYAN_CONFIG_INIT;
  config.name = "banyan_info";
  config.transports = "shm";
  config.timeout_s = config.init_timeout_s = kPatience;
  banyan_comm_t comm = nullptr;
  if (banyan_comm_init(&comm, ranks, &id, rank, &config) != BANYAN_SUCCESS) return {};
  const auto times = message_times_of(comm);
  if (banyan_comm_finalize(comm) != BANYAN_SUCCESS) banyan_comm_abort(comm);
  banyan_comm_destroy(comm);
  return times.ok() ? *times : MessageTimes();
}

MessageTimes meet_once(int ranks) {
  banyan_unique_id_t id;
  if (ranks < 2 || banyan_get_unique_id(&id) != BANYAN_SUCCESS) return {};
  std::vector<std::thread> others;
  try {
    for (int rank = 1; rank < ranks; ++rank) others.emplace_back(take_part, ranks, id, rank);
  } catch (const std::system_error&) {
    // Those that were started wait for the rest in vain, for as long as their patience lasts.
  }
  MessageTimes times;
  if (static_cast<int>(others.size()) == ranks - 1) times = take_part(ranks, id, 0);
  for (std::thread& each : others) each.join();
  return times;
}

}  // namespace

// Whoever else is at work makes a meeting look slow; the one that was disturbed least counts.
MessageTimes meet(int ranks) {
  constexpr int kMeetings = 3;
  MessageTimes best;
  for (int meeting = 0; meeting < kMeetings; ++meeting) {
    MessageTimes times = meet_once(std::min(ranks, kMostMeeting));
    if (times.messages.empty()) break;
    if (best.messages.empty() || times.word_us < best.word_us) best = std::move(times);
  }
  return best;
}

}  // namespace banyan::info
