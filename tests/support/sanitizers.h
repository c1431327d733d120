// What this build checks while it runs, for tests that must take their time then.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#if defined(__has_feature)
#define BANYAN_TEST_FEATURE(name) __has_feature(name)
#else
#define BANYAN_TEST_FEATURE(name) 0
#endif

namespace banyan::test {

#if defined(__SANITIZE_THREAD__) || BANYAN_TEST_FEATURE(thread_sanitizer)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

#if defined(__SANITIZE_ADDRESS__) || BANYAN_TEST_FEATURE(address_sanitizer)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif

inline constexpr bool kSanitized = kThreadSanitizer || kAddressSanitizer;

}  // namespace banyan::test
