// Keys, and the mutual challenge-response that every connection between ranks starts with.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "banyan/status.h"

namespace banyan {

using Key = std::array<std::byte, 32>;
using Nonce = std::array<std::byte, 32>;
using Mac = std::array<std::byte, 32>;

Result<Key> random_key();
// HMAC-SHA-256 of label and context under key; label and context are told apart by a length.
Mac authenticate(const Key& key, std::string_view label, std::span<const std::byte> context);
// The same, as a key for one purpose.
Key derive_key(const Key& key, std::string_view label, std::span<const std::byte> context);
// From what a user or a launcher gave as text.
Key key_of_text(std::string_view secret);
// In time that does not depend on where they differ.
bool equal(const Mac& a, const Mac& b);

}  // namespace banyan
