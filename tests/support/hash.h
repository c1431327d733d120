// SHA-256 of memory, for bytes that never change.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/kernels_reference.h"

namespace banyan {

class Hash {
 public:
  Hash() { EXPECT_EQ(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr), 1); }

  void add(const Memory& bytes) {
    EXPECT_EQ(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()), 1);
  }

  // Nothing is added after it.
  std::string text() {
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    EXPECT_EQ(EVP_DigestFinal_ex(context_.get(), hash, &size), 1);
    std::string text;
    for (unsigned int i = 0; i < size; i++) {
      constexpr char kDigits[] = "0123456789abcdef";
      text += {kDigits[hash[i] >> 4], kDigits[hash[i] & 15]};
    }
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_{EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free};
};

// In hexadecimal, of all parts in their order.
inline std::string hash_of(const std::vector<Memory>& parts) {
  Hash hash;
  for (const Memory& part : parts) hash.add(part);
  return hash.text();
}

}  // namespace banyan
