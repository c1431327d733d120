// PMI-1 as a process manager speaks it, well and badly.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "src/base/descriptor.h"
#include "src/base/process.h"
#include "src/bootstrap/launcher.h"
#include "src/bootstrap/rendezvous_socket.h"

namespace banyan::pmi_test {
namespace {

// A process manager that answers from a script.
class Manager {
 public:
  // Patient: an answer that is empty is not sent.
  explicit Manager(std::map<std::string, std::string> answers, bool patient = false)
      : answers_(std::move(answers)), patient_(patient) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    process().pmi_space.clear();  // of the one before
    ours_ = Descriptor(ends[0]);
    theirs_ = Descriptor(ends[1]);
    thread_ = std::thread([this] { serve(); });
  }
  ~Manager() { stop(); }
  int descriptor() const { return theirs_.get(); }
  // What was asked, without values.
  std::vector<std::string> stop() {
    if (thread_.joinable()) {
      (void)::shutdown(ours_.get(), SHUT_RDWR);
      thread_.join();
    }
    return asked_;
  }

 private:
  void serve() {
    std::string line;
    char c = 0;
    while (::read(ours_.get(), &c, 1) == 1) {
      if (c != '\n') {
        line += c;
        continue;
      }
      const std::string command = line.substr(0, line.find(' '));
      asked_.push_back(line);
      const auto answer = answers_.find(command);
      if (answer == answers_.end()) {
        (void)::shutdown(ours_.get(), SHUT_RDWR);
        return;
      }
      line.clear();
      if (patient_ && answer->second.empty()) continue;
      const std::string reply = answer->second + "\n";
      (void)::send(ours_.get(), reply.data(), reply.size(), MSG_NOSIGNAL);
    }
  }

  std::map<std::string, std::string> answers_;
  bool patient_;
  Descriptor ours_;
  Descriptor theirs_;
  std::vector<std::string> asked_;
  std::thread thread_;
};

std::map<std::string, std::string> good_answers() {
  return {{"cmd=init", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"},
          {"cmd=get_maxes", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024"},
          {"cmd=get_my_kvsname", "cmd=my_kvsname kvsname=kvs_1_0"},
          {"cmd=put", "cmd=put_result rc=0 msg=success"},
          {"cmd=barrier_in", "cmd=barrier_out rc=0"},
          {"cmd=get", "cmd=get_result rc=0 msg=success value=0a1b"}};
}

TEST(Pmi, BroadcastsFromRank0) {
  for (const int rank : {0, 1}) {
    Manager manager(good_answers());
    auto pmi = open_pmi(manager.descriptor(), rank, 2, deadline_after(10));
    ASSERT_TRUE(pmi.ok()) << pmi.status().message();
    EXPECT_EQ((*pmi)->size(), 2);
    const auto value = (*pmi)->broadcast("banyan-0", "0a1b");
    ASSERT_TRUE(value.ok()) << value.status().message();
    EXPECT_EQ(*value, "0a1b");
    const auto asked = manager.stop();
    const bool put = std::find(asked.begin(), asked.end(),
                               "cmd=put kvsname=kvs_1_0 key=banyan-0 value=0a1b") != asked.end();
    EXPECT_EQ(put, rank == 0);
    EXPECT_EQ(asked.back(), "cmd=get kvsname=kvs_1_0 key=banyan-0");
  }
}

// Slurm's answers no second one.
TEST(Pmi, GreetsTheManagerOnce) {
  Manager manager(good_answers());
  for (const char* key : {"banyan-0", "banyan-1"}) {
    const auto pmi = open_pmi(manager.descriptor(), 1, 2, deadline_after(10));
    ASSERT_TRUE(pmi.ok()) << pmi.status().message();
    EXPECT_TRUE((*pmi)->broadcast(key, "").ok());
  }
  const auto asked = manager.stop();
  EXPECT_EQ(std::count_if(asked.begin(), asked.end(),
                          [](const std::string& line) { return line.rfind("cmd=init ", 0) == 0; }),
            1);
  EXPECT_EQ(asked.back(), "cmd=get kvsname=kvs_1_0 key=banyan-1");
}

TEST(Pmi, FailsClearly) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"cmd=init", "cmd=response_to_init rc=-1"},
      {"cmd=init", "GET / HTTP/1.1"},
      {"cmd=get_maxes", ""},
      {"cmd=get_my_kvsname", "cmd=my_kvsname"},
      {"cmd=get_my_kvsname", "cmd=my_kvsname kvsname="},
      {"cmd=put", "cmd=put_result rc=-1 msg=duplicate_key"},
      {"cmd=barrier_in", std::string(5000, 'x')},
      {"cmd=get", "cmd=get_result rc=-1 msg=key_not_found"},
      {"cmd=get", "cmd=get_result rc=0"}};
  for (const auto& [command, answer] : wrong) {
    auto answers = good_answers();
    answers[command] = answer;
    Manager manager(answers);
    auto pmi = open_pmi(manager.descriptor(), 0, 2, deadline_after(10));
    const Status status = pmi.ok() ? (*pmi)->broadcast("banyan-0", "0a1b").status() : pmi.status();
    EXPECT_EQ(status.code(), Code::kSystem) << command << " " << answer;
    EXPECT_NE(status.message().find("PMI"), std::string_view::npos);
  }
  auto answers = good_answers();
  answers.erase("cmd=barrier_in");  // the manager ends
  Manager manager(answers);
  auto pmi = open_pmi(manager.descriptor(), 0, 2, deadline_after(10));
  ASSERT_TRUE(pmi.ok());
  EXPECT_EQ((*pmi)->broadcast("banyan-0", "0a1b").status().code(), Code::kSystem);
}

TEST(Pmi, DoesNotWaitForEver) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const Descriptor silent_manager(ends[0]);
  const Descriptor ours(ends[1]);
  process().pmi_space.clear();  // as before the first meeting
  EXPECT_EQ(open_pmi(ours.get(), 0, 2, deadline_after(0.05)).status().code(), Code::kTimeout);
  EXPECT_EQ(open_pmi(-1, 0, 2, deadline_after(0.05)).status().code(), Code::kSystem);
}

// As rank 1 of 2.
Status meet_through(const Manager& manager, int count, double seconds) {
  const RawEnvironment raw(
      {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"PMI_FD", std::to_string(manager.descriptor())}});
  const auto launch = detect_launch(raw, {});
  if (!launch.ok()) return launch.status();
  return meet(*launch, raw, {}, count, deadline_after(seconds), Log()).status();
}

TEST(Pmi, WhoeverComesWhenTheOthersHaveGivenUpIsTooLate) {
  UniqueId gone;
  gone.address.ip = {127, 0, 0, 1};
  gone.address.port = listen_at(gone.address, {})->address.port;  // closed again
  auto answers = good_answers();
  answers["cmd=get"] = "cmd=get_result rc=0 value=";
  for (const std::byte byte : gone.pack())
    answers["cmd=get"] += fmt::format("{:02x}", std::to_integer<int>(byte));
  Manager manager(answers);
  const auto late = meet_through(manager, 0, 20);
  EXPECT_EQ(late.code(), Code::kTimeout) << late.message();
  EXPECT_NE(late.message().find("BANYAN_INIT_TIMEOUT"), std::string_view::npos) << late.message();
}

// Its answer would be taken for that of the next question.
TEST(Pmi, AfterAnExchangeWithoutAnAnswerThereIsNoOther) {
  auto answers = good_answers();
  answers["cmd=barrier_in"] = "";
  Manager manager(answers, true);
  const auto late = meet_through(manager, 0, 0.1);
  EXPECT_EQ(late.code(), Code::kTimeout) << late.message();
  const TimePoint begin = Clock::now();
  const auto again = meet_through(manager, 1, 20);
  EXPECT_EQ(again.code(), Code::kTimeout) << again.message();
  EXPECT_NE(again.message().find("PMI_RANK=1"), std::string_view::npos) << again.message();
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
  EXPECT_EQ(manager.stop().back(), "cmd=barrier_in");  // nothing was sent
  process().launcher_unanswered = false;
}

}  // namespace
}  // namespace banyan::pmi_test
