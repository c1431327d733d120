// HMAC-SHA-256 from libcrypto, random bytes from the kernel.
// SPDX-License-Identifier: Apache-2.0

#include "src/bootstrap/authentication.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <cerrno>
#include <mutex>

#include "src/base/bytes.h"
#include "src/base/process.h"
#include "src/base/system_error.h"

namespace banyan {
namespace {

bool fill_random(std::span<std::byte> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = getrandom(bytes.data() + done, bytes.size() - done, 0);
    if (got < 0 && errno != EINTR) return false;
    if (got > 0) done += static_cast<size_t>(got);
  }
  return true;
}

// libcrypto keeps something for each thread, and frees it under its own locks when the thread ends,
// after what is thread_local. So it is freed here, where none of those locks is held at a fork
// either.
struct LeavesLibcrypto {
  ~LeavesLibcrypto() {
    const std::lock_guard alone(process().inside_libcrypto);
    OPENSSL_thread_stop();
  }
};

}  // namespace

Result<Key> random_key() {
  Key key{};
  if (!fill_random(key)) {
    return system_error("getrandom", errno);
  }
  return key;
}

Mac authenticate(const Key& key, std::string_view label, std::span<const std::byte> context) {
  thread_local const LeavesLibcrypto at_the_end_of_the_thread;
  const std::lock_guard alone(process().inside_libcrypto);
  // The thread of a rendezvous may still be here while the process runs its exit handlers, where
  // libcrypto would otherwise tear itself down under it.
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  Writer message;
  message.put_text(label);
  message.put_raw(context);
  Mac mac{};
  unsigned int size = 0;
  const auto* data = reinterpret_cast<const unsigned char*>(message.bytes().data());
  const unsigned char* made =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), data, message.bytes().size(),
           reinterpret_cast<unsigned char*>(mac.data()), &size);
  // Without memory there is no MAC: then one that nobody can have.
  if (made == nullptr || size != mac.size()) (void)fill_random(mac);
  return mac;
}

Key derive_key(const Key& key, std::string_view label, std::span<const std::byte> context) {
  return authenticate(key, fmt::format("banyan key: {}", label), context);
}

Key key_of_text(std::string_view secret) {
  return authenticate(Key{}, "banyan secret", std::as_bytes(std::span(secret)));
}

bool equal(const Mac& a, const Mac& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace banyan
