// BANYAN_TUNE_FILE: rank 0 reads it, all choose by it, and a bad one keeps everybody from meeting.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/choice/show_explanation.h"
#include "src/c_api/handles.h"
#include "src/c_api/inspect.h"
#include "src/tuning/tuning_file.h"
#include "tests/ranks/ranks_fixture.h"
#include "tests/support/temporary_folder.h"

namespace banyan::test::tuning_test {
namespace {

class Tuning : public WithRanks {
 protected:
  std::string path() const { return (folder_.path() / "tune.json").string(); }
  void write(const std::vector<std::string>& rules,
             const std::optional<Measured>& measured = {}) const {
    TuningFile file;
    for (const std::string& rule : rules) file.rules.push_back({rule, measured});
    const Status written = write_tuning_file(path(), file);
    ASSERT_TRUE(written.ok()) << written.message();
  }
  // The machine is another one than that of the file, which would be told.
  JobOptions with_file() const {
    return {.environment = {{"BANYAN_TUNE_FILE", path()}, {"BANYAN_DEBUG", "error"}}};
  }

 private:
  TemporaryFolder folder_;
};

std::string explained(Rank& self, banyan_comm_t comm, size_t count,
                      banyan_datatype_t type = BANYAN_FLOAT32, const char* algorithm = nullptr) {
  std::vector<float> send(count + 1), recv(count + 1);
  banyan_call_t call = BANYAN_CALL_INIT;
  call.collective = count == 0 ? BANYAN_BARRIER : BANYAN_ALLREDUCE;
  call.send = send.data();
  call.recv = recv.data();
  call.count = count;
  call.datatype = type;
  call.algorithm = algorithm;
  std::string text(4096, '\0');
  size_t bytes = text.size();
  self.expect_ok(banyan_explain(comm, &call, text.data(), &bytes), "explain");
  text.resize(std::min(bytes, text.size()) - 1);
  const auto plan = plan_of(comm, call);
  self.expect(plan.ok() && text.find("\na call gets " + plan->algorithm) != text.npos,
              "what the call would get: " + text);
  return text;
}

void expect_why(Rank& self, const std::string& text, std::string_view algorithm,
                std::string_view why) {
  self.expect(text.find(fmt::format("\na call gets {}: ", algorithm)) != std::string::npos &&
                  text.find(why) != std::string::npos,
              fmt::format("expected {} by {} in:\n{}", algorithm, why, text));
}

TEST_P(Tuning, DecidesForAllRanksAlike) {
  write({"barrier: dissemination", "allreduce ranks=4-: ring",
         "allreduce ranks=3-3 nodes=1-1 dtype=float32: ring"});
  run_joined(
      3,
      [](Rank& self, banyan_comm_t comm) {
        expect_why(self, explained(self, comm, 1), "ring", "tuning file rule 3");
        expect_why(self, explained(self, comm, 0), "dissemination", "tuning file rule 1");
        expect_why(self, explained(self, comm, 1, BANYAN_INT8), "direct", "default table");
        self.verify(comm, 1000, 1);
      },
      with_file());
}

TEST_P(Tuning, HasParametersOfAlgorithms) {
  write({"allreduce mem=host: torus(dims=2x2), ring(seg=64)"});
  JobOptions options = with_file();
  options.environment.emplace_back("BANYAN_ALGO", "mem=cuda: star");
  run_joined(
      3,
      [](Rank& self, banyan_comm_t comm) {
        expect_why(self, explained(self, comm, 1), "ring(seg=64)",
                   "tuning file rule 1, with seg=64\n");
        expect_why(self, explained(self, comm, 1, BANYAN_FLOAT32, "star"), "star",
                   "what a call gets, by the call itself\n");
        self.verify(comm, 1000, 1);
      },
      options);
}

TEST_P(Tuning, ComesAfterTheVariable) {
  write({"allreduce: ring"});
  JobOptions options = with_file();
  options.environment.emplace_back("BANYAN_ALGO", "barrier: star; ^direct");
  run_joined(
      3,
      [](Rank& self, banyan_comm_t comm) {
        expect_why(self, explained(self, comm, 0), "star", "BANYAN_ALGO rule 1");
        expect_why(self, explained(self, comm, 1), "ring",
                   "BANYAN_ALGO rule 2, tuning file rule 1");
      },
      options);
}

// Whoever has the same facts comes to the same rows, as banyan_info does; of the file, what its
// rule took as well, on ranks that have not read it.
TEST_P(Tuning, ExplainsAsAnybodyWouldByTheSameFacts) {
  const Measured measured{
      .bytes = 4096, .us = 12.5, .runs = 7, .runner_up = "star", .runner_up_us = 14.25};
  write({"allreduce size=4K-8K: ring"}, measured);
  JobOptions options = with_file();
  options.environment.emplace_back("BANYAN_ALGO", "^direct");
  run_joined(
      3,
      [&](Rank& self, banyan_comm_t comm) {
        Rules file = *parse_rules("allreduce size=4K-8K: ring");
        file.front().measured = measured;
        const auto model = model_of(comm);
        self.expect(model.ok() && model->has_value(), "ranks in memory have a model");
        for (const uint64_t bytes : {64, 4096, 8192, 1 << 20}) {
          const CallSite site{.problem = equal_blocks(Collective::kAllreduce, DataType::kFloat32,
                                                      bytes / sizeof(float), 3),
                              .ranks = 3,
                              .medium = (*find_communicator(comm))->membership->medium(),
                              .rules = join_rules(*parse_rules("^direct"), file),
                              .model = *model,
                              .transports = "shm"};
          const std::string text = explained(self, comm, bytes / sizeof(float));
          self.expect(text == show_explanation(site, explain(site)), text);
          self.expect((text.find(" 12.50 ") != text.npos && text.find(" 14.25 ") != text.npos) ==
                          (bytes == measured.bytes),
                      fmt::format("measured at one size:\n{}", text));
        }
      },
      options);
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// At any level of the log, once for the communicator, with what the file adds.
TEST_P(Tuning, IsExplainedByRankZero) {
  write({"allreduce size=4K-64K: ring"});
  const std::string log = path() + ".log";
  JobOptions options = with_file();
  options.environment.emplace_back("BANYAN_ALGO", "explain; barrier: star");
  options.environment.emplace_back("BANYAN_DEBUG_FILE", log);
  run_joined(
      3,
      [&](Rank& self, banyan_comm_t) {
        self.meet();
        if (self.rank() != 0) return;
        const std::string text = text_of(log);
        for (const std::string_view part :
             {"allreduce of float32 up to 64K: ring, by the tuning file rule 1\n",
              "barrier: star, by the BANYAN_ALGO rule 1\n", "alltoallv: pairwise, by the"}) {
          const size_t found = text.find(part);
          self.expect(found != std::string::npos && text.find(part, found + 1) == text.npos,
                      fmt::format("once '{}' in:\n{}", part, text));
        }
      },
      options);
}

// A part of the ranks has the table of all, wherever its own rank 0 is.
TEST_P(Tuning, IsInherited) {
  write({"allreduce: ring"});
  run_joined(
      4,
      [this](Rank& self, banyan_comm_t comm) {
        self.meet();
        if (self.rank() == 0) ::unlink(path().c_str());
        self.meet();
        banyan_comm_t child = nullptr;
        self.expect_ok(banyan_comm_split(comm, self.rank() % 2, -self.rank(), &child, nullptr),
                       "split");
        if (child == nullptr) return;
        expect_why(self, explained(self, child, 1), "ring", "tuning file rule 1");
        self.leave(child);
      },
      with_file());
}

// On one host links choose nothing, and a ring of hosts has nothing to order: in splits neither.
TEST_P(Tuning, LinksAndRingsAreOfHosts) {
  TuningFile file;
  file.tuned_on = {.cores = 2, .ranks = 4, .hosts = 1, .transports = "shm"};
  file.links.between =
      MeasuredLink{.latency_us = 20, .busy_latency_us = 30, .GBps = 0.1, .busy_GBps = 0.05};
  file.links.sums = MeasuredSums{.GBps = 20, .far_GBps = 4};
  file.ring = {"node2", "node1"};
  ASSERT_TRUE(write_tuning_file(path(), file).ok());
  run_joined(
      4,
      [](Rank& self, banyan_comm_t comm) {
        expect_why(self, explained(self, comm, 1), "direct", "default table");
        self.verify(comm, 1000, 1);
        banyan_comm_t child = nullptr;
        self.expect_ok(banyan_comm_split(comm, self.rank() % 2, self.rank(), &child, nullptr),
                       "split");
        if (child == nullptr) return;
        self.expect(explained(self, child, 1).find("default table") != std::string::npos, "split");
        self.leave(child);
      },
      with_file());
}

// What calls by codecs took decides for as many ranks on as many hosts, and not for a part of them.
TEST_P(Tuning, TimesOfCodecsAreOfAllRanks) {
  TuningFile file;
  file.tuned_on = {.cores = 2, .ranks = 4, .hosts = 1, .transports = "shm"};
  file.codec_times = {{{}, 1 << 20, 100}, {{.codec = kInt8}, 1 << 20, 50}};
  ASSERT_TRUE(write_tuning_file(path(), file).ok());
  JobOptions options = with_file();
  options.environment.emplace_back("BANYAN_COMPRESS", "auto");
  run_joined(
      4,
      [](Rank& self, banyan_comm_t comm) {
        constexpr size_t kCount = (1 << 20) / sizeof(float);
        const std::string text = explained(self, comm, kCount);
        self.expect(text.find("auto: int8 measured 50.00 us, exact measured 100.00 us") !=
                        std::string::npos,
                    text);
        banyan_comm_t child = nullptr;
        self.expect_ok(banyan_comm_split(comm, self.rank() % 2, self.rank(), &child, nullptr),
                       "split");
        if (child == nullptr) return;
        const std::string apart = explained(self, child, kCount);
        self.expect(apart.find("int8 measured") == std::string::npos, apart);
        self.leave(child);
      },
      options);
}

TEST_P(Tuning, AFileThatIsNoneKeepsAllFromMeeting) {
  const std::string hostile = "{\"schema\": 1,\n\"rules\": [";
  for (const bool missing : {false, true}) {
    if (!missing) std::ofstream(path()) << hostile;
    if (missing) ::unlink(path().c_str());
    run(
        3,
        [&](Rank& self) {
          banyan_comm_t comm = nullptr;
          self.expect(self.try_join(&comm) != BANYAN_SUCCESS, "rank 0 has no tuning file to read");
          const std::string text = banyan_last_error(nullptr);
          for (const std::string& part :
               {"BANYAN_TUNE_FILE=" + path(), std::string(missing ? "No such file" : "line 2: ")})
            self.expect(text.find(part) != std::string::npos,
                        fmt::format("expected '{}' in: {}", part, text));
          self.expect(self.rank() == 0 || text.find("rank 0") != std::string::npos, text);
        },
        with_file());
  }
}

INSTANTIATE_TEST_SUITE_P(All, Tuning, both_kinds(),
                         [](const auto& test) { return std::string(name_of(test.param)); });

// The environment belongs to the process.
class TuningOfOne : public Tuning {};
TEST_P(TuningOfOne, OnlyRankZeroNeedsTheFile) {
  write({"allreduce: ring"});
  run(3, [this](Rank& self) {
    setenv("BANYAN_DEBUG", "error", 1);
    setenv("BANYAN_TUNE_FILE", (path() + (self.rank() == 0 ? "" : ".none")).c_str(), 1);
    if (self.rank() == 2) unsetenv("BANYAN_TUNE_FILE");
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    expect_why(self, explained(self, comm, 1), "ring", "tuning file rule 1");
    self.leave(comm);
  });
}
INSTANTIATE_TEST_SUITE_P(All, TuningOfOne, testing::Values(Kind::kProcesses),
                         [](const auto& test) { return std::string(name_of(test.param)); });

}  // namespace
}  // namespace banyan::test::tuning_test
