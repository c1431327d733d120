// A communicator of one rank, which works after every test.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <gtest/gtest.h>

#include <string>

#include "banyan/banyan.h"

namespace banyan::test {

inline banyan_comm_t make_comm() {
  banyan_unique_id_t id;
  banyan_comm_t comm = nullptr;
  EXPECT_EQ(banyan_get_unique_id(&id), BANYAN_SUCCESS) << banyan_last_error(nullptr);
  EXPECT_EQ(banyan_comm_init(&comm, 1, &id, 0, nullptr), BANYAN_SUCCESS)
      << banyan_last_error(nullptr);
  return comm;
}

// As a C caller may pass it.
inline banyan_datatype_t type_of(int value) {
  return static_cast<banyan_datatype_t>(value);
}

class CApi : public testing::Test {
 protected:
  void SetUp() override {
    comm_ = make_comm();
    ASSERT_NE(comm_, nullptr);
  }
  void TearDown() override {
    works();
    EXPECT_EQ(banyan_comm_finalize(comm_), BANYAN_SUCCESS);
    EXPECT_EQ(banyan_comm_destroy(comm_), BANYAN_SUCCESS);
  }
  void works() {
    float in = 3, out = 0;
    ASSERT_EQ(banyan_allreduce(&in, &out, 1, BANYAN_FLOAT32, BANYAN_SUM, comm_), BANYAN_SUCCESS)
        << banyan_last_error(comm_);
    ASSERT_EQ(out, 3);
  }
  // Refused with `wanted` and a sentence with that word in it.
  static void refused(banyan_result_t got, banyan_result_t wanted, const std::string& word,
                      int line = __builtin_LINE()) {
    EXPECT_EQ(got, wanted) << "line " << line << ": " << banyan_last_error(nullptr);
    const std::string text = banyan_last_error(nullptr);
    EXPECT_NE(text.find(word), std::string::npos)
        << "line " << line << ": \"" << text << "\" names not \"" << word << '"';
  }
  static void refused(banyan_result_t got, const std::string& word, int line = __builtin_LINE()) {
    refused(got, BANYAN_ERR_INVALID_ARGUMENT, word, line);
  }

  banyan_comm_t comm_ = nullptr;
  float in_[64] = {};
  float out_[64] = {};
};

}  // namespace banyan::test
