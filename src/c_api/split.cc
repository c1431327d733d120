// Splits a communicator for banyan.h. Its ranks meet elsewhere, and tell each other over the parent
// whether they can: whoever cannot get there has no other way to say so.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "src/base/descriptor_room.h"
#include "src/bootstrap/frame.h"
#include "src/bootstrap/rendezvous.h"
#include "src/c_api/communicator.h"
#include "src/c_api/group.h"
#include "src/c_api/run.h"
#include "src/communicator/assembly.h"
#include "src/communicator/cluster.h"

namespace banyan {
namespace {

// Each rank gives one.
struct Place {
  int32_t color;
  int32_t key;
};

// This rank and all others of its colour are one.
struct Party {
  std::vector<int> members{};  // as ranks of the parent, in their new order; none without a colour
  int rank = 0;                // of this one among them
  int color = BANYAN_NO_COLOR;
};

// Each rank says one before it goes to where the new ranks meet, and one once it is there.
struct Word {
  std::array<std::byte, sizeof(banyan_unique_id_t)> id{};  // of the first rank of each colour
  double patience_s = 0;                                   // until it gives up
  uint64_t bytes = 0;                                      // of `why`; 0: it can go on
  std::array<std::byte, 240> why{};                        // encode_verdict()
};

Word word_of(const Status& status) {
  Word word;
  if (status.ok()) return word;
  constexpr size_t kBeforeText = 2 * sizeof(uint32_t);
  const std::string_view text = status.message().substr(0, word.why.size() - kBeforeText);
  const Bytes why = encode_verdict({status.code(), std::string(text)});
  word.bytes = why.size();
  std::copy(why.begin(), why.end(), word.why.begin());
  return word;
}

// Tells what a member said by its word. Wrong arguments are its own affair.
Status said_in(const Word& word, int member, int color) {
  if (word.bytes == 0) return {};
  const auto said =
      parse_verdict(std::span(word.why).first(std::min<uint64_t>(word.bytes, word.why.size())));
  if (!said.ok())
    return {Code::kCorrupt, fmt::format("rank {} sent a word that cannot be read", member)};
  const Code code = said->status.code();
  if (code == Code::kInvalidArgument || code == Code::kInvalidUsage || code == Code::kUnsupported)
    return {Code::kRemote,
            fmt::format("rank {} cannot take part in colour {}; its own error says why", member,
                        color)};
  return {code, fmt::format("rank {}: {}", member, said->status.message())};
}

// Tells why the first member that cannot go on cannot.
Status failure_among(const Party& party, std::span<const Word> said) {
  for (const int member : party.members)
    BANYAN_TRY(said_in(said[static_cast<size_t>(member)], member, party.color));
  return {};
}

Result<Party> gather(OpenCommunicator& parent, const Place& mine) {
  BANYAN_TRY(run_internal(parent, Collective::kSplit, nullptr, nullptr, 0));
  std::vector<Place> all(static_cast<size_t>(parent.membership->size()));
  BANYAN_TRY(run_internal(parent, Collective::kAllgather, &mine, all.data(), sizeof mine));
  Party party{.color = mine.color};
  if (mine.color == BANYAN_NO_COLOR) return party;
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank].color == mine.color) party.members.push_back(static_cast<int>(rank));
  std::stable_sort(party.members.begin(), party.members.end(), [&](int a, int b) {
    return all[static_cast<size_t>(a)].key < all[static_cast<size_t>(b)].key;
  });
  const int own = parent.membership->rank();
  const auto place = std::find(party.members.begin(), party.members.end(), own);
  party.rank = static_cast<int>(place - party.members.begin());
  return party;
}

// Takes one rank through a split. Whoever cannot go on still takes part in every round over the
// parent, to say so.
class Split {
 public:
  using MakeSettings = std::function<Result<Settings>(int rank)>;

  Split(OpenCommunicator& parent, Party party, MakeSettings make_settings)
      : parent_(parent), party_(std::move(party)), make_settings_(std::move(make_settings)) {}

  // After it has returned ok, open().
  Status meet() {
    status_ = without_memory([&] {
      settings_ = make_settings_(party_.rank);
      return settings_.status();
    });
    patience_s_ =
        settings_.ok() ? settings_->init_timeout_s : parent_.membership->settings().init_timeout_s;
    deadline_ = deadline_after(patience_s_);
    if (status_.ok()) status_ = without_memory([&] { return prepare(); });
    BANYAN_TRY(say_that_it_is_ready());
    if (status_.ok() && !party_.members.empty()) status_ = without_memory([&] { return join(); });
    if (has_said_how_it_went_) return status_;
    const Status heard = say_how_it_went(status_);
    return status_.ok() ? heard : status_;
  }

  // Whether this rank is in one of the new communicators.
  bool has_colour() const { return exchange_ != nullptr; }
  Status open(banyan_comm_t* child) {
    return or_earlier_news(news_,
                           open_communicator(*exchange_, std::move(*settings_), deadline_, child));
  }
  Result<std::unique_ptr<Membership>> assemble_new() {
    Result<std::unique_ptr<Membership>> joined =
        assemble(*exchange_, std::move(*settings_), deadline_);
    if (!joined.ok()) return or_earlier_news(news_, joined.status());
    return joined;
  }

 private:
  template <typename Body>
  static Status without_memory(const Body& body) {
    try {
      return body();
    } catch (const std::bad_alloc&) {
      return {Code::kSystem, "out of memory"};
    }
  }

  // The first of the new ranks opens a rendezvous for the others.
  Status prepare() {
    const Membership& membership = *parent_.membership;
    inherit_cluster(*settings_, membership.hierarchy(), party_.members);
    settings_->tuning = membership.settings().tuning;
    if (party_.members.empty() || party_.rank != 0) return {};
    // Whom it could not let in would wait for nothing. Of its own it takes five.
    const size_t ranks = party_.members.size();
    BANYAN_TRY(require_descriptors(ranks + 5, fmt::format("a split among {} ranks", ranks)));
    UniqueId id;
    const Result<Key> key = random_key();
    BANYAN_TRY(key.status());
    id.key = *key;
    const Environment& environment = settings_->environment;
    // Where they reach it already.
    const std::optional<Address>& known = membership.links().address;
    const Result<Address> address = known && !membership.one_host()
                                        ? Result<Address>(*known)
                                        : listening_address(environment, membership.one_host());
    BANYAN_TRY(address.status());
    const Result<Address> bound = open_rendezvous(
        {.address = *address, .ports = environment.port_range, .key = *key, .deadline = deadline_},
        settings_->log);
    BANYAN_TRY(bound.status());
    id.address = *bound;
    id_ = id.pack();
    return {};
  }

  Status say_that_it_is_ready() {
    Word mine = word_of(status_);
    mine.id = id_;
    mine.patience_s = patience_s_;
    std::vector<Word> said(static_cast<size_t>(parent_.membership->size()));
    BANYAN_TRY(run_internal(parent_, Collective::kAllgather, &mine, said.data(), sizeof mine));
    // They wait for whoever is on the way there.
    for (const Word& word : said)
      if (word.patience_s > patience_s_) patience_s_ = word.patience_s;
    if (!status_.ok() || party_.members.empty()) return {};
    status_ = failure_among(party_, said);
    id_ = said[static_cast<size_t>(party_.members.front())].id;
    return {};
  }

  Status join() {
    const Result<UniqueId> meeting = unpack_unique_id(id_);
    BANYAN_TRY(meeting.status());
    Result<std::unique_ptr<Exchange>> joined =
        join_rendezvous({.rank = party_.rank,
                         .size = static_cast<int>(party_.members.size()),
                         .candidates = {meeting->address},
                         .must_listen = true,
                         .key = meeting->key,
                         .deadline = deadline_,
                         .arrived = [this] { return say_how_it_went({}); },
                         .watch = news_},
                        settings_->log);
    if (!joined.ok()) return or_earlier_news(news_, joined.status());
    exchange_ = std::move(*joined);
    return {};
  }

  Status say_how_it_went(const Status& status) {
    const Word mine = word_of(status);
    std::vector<Word> said(static_cast<size_t>(parent_.membership->size()));
    has_said_how_it_went_ = true;  // from here on, without memory, the parent fails
    BANYAN_TRY(run_internal(parent_, Collective::kAllgather, &mine, said.data(), sizeof mine,
                            patience_s_ + parent_.membership->settings().timeout_s));
    return failure_among(party_, said);
  }

  OpenCommunicator& parent_;
  Party party_;
  MakeSettings make_settings_;
  Result<Settings> settings_{Status(Code::kInternal, "not asked for")};
  Status status_;  // of this rank, or of what it has heard
  std::array<std::byte, sizeof(banyan_unique_id_t)> id_{};
  double patience_s_ = 0;
  TimePoint deadline_;
  bool has_said_how_it_went_ = false;
  std::unique_ptr<Exchange> exchange_;
  // The failure of the parent explains why others have gone, not the other way round.
  Watch news_ = parent_.membership->watch();
};

// All ranks of the parent are there, and those of each colour know where to meet.
Status meet(OpenCommunicator& parent, const Place& mine, Split::MakeSettings make_settings,
            std::optional<Split>& split) {
  return with_memory(*parent.membership, [&]() -> Status {
    Result<Party> party = gather(parent, mine);
    if (!party.ok()) return party.status();
    return split.emplace(parent, std::move(*party), std::move(make_settings)).meet();
  });
}

// As the parent has them, whatever the environment says by now.
Result<Settings> settings_of_parent(const Settings& parent, int rank) {
  Result<Settings> settings = settings_of(nullptr, rank);
  BANYAN_TRY(settings.status());
  settings->name = parent.name;
  settings->log = parent.log;
  settings->timeout_s = parent.timeout_s;
  settings->timeout_from = parent.timeout_from;
  settings->init_timeout_s = parent.init_timeout_s;
  settings->invariant = parent.invariant;
  settings->compression = parent.compression;
  settings->has_ceiling = parent.has_ceiling;
  settings->transports = parent.transports;
  settings->environment = parent.environment;
  return settings;
}

Status check_and_split(banyan_comm_t comm, const Place& mine, banyan_comm_t* child,
                       const banyan_config_t* config) {
  if (child != nullptr) *child = nullptr;
  BANYAN_TRY(refuse_in_group("banyan_comm_split"));
  const Result<OpenCommunicator*> found = find_communicator(comm);
  BANYAN_TRY(found.status());
  if (child == nullptr) return {Code::kInvalidArgument, "child is NULL"};
  if (mine.color < BANYAN_NO_COLOR)
    return {Code::kInvalidArgument, fmt::format("color is {}; valid: 0 or more, or {} "
                                                "(BANYAN_NO_COLOR)",
                                                mine.color, BANYAN_NO_COLOR)};
  BANYAN_TRY(check_usable(**found));
  std::optional<Split> split;
  BANYAN_TRY(meet(
      **found, mine, [&](int rank) { return settings_of(config, rank); }, split));
  return split->has_colour() ? split->open(child) : Status();
}

}  // namespace

Result<std::unique_ptr<Membership>> duplicate(OpenCommunicator& parent) {
  const Membership& membership = *parent.membership;
  std::optional<Split> split;
  BANYAN_TRY(meet(
      parent, {0, membership.rank()},
      [&](int rank) { return settings_of_parent(membership.settings(), rank); }, split));
  return split->assemble_new();
}

}  // namespace banyan

banyan_result_t banyan_comm_split(banyan_comm_t comm, int color, int key, banyan_comm_t* child,
                                  const banyan_config_t* config) {
  return banyan::door(comm, [&] {
    return banyan::check_and_split(comm, {color, key}, child, config);
  });
}
