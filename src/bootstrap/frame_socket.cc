// Frames over a non-blocking socket.
// SPDX-License-Identifier: Apache-2.0

#include "src/bootstrap/frame_socket.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <system_error>

namespace banyan {
namespace {

Status lost(std::string_view doing) {
  return {Code::kPeerLost, fmt::format("{}: {}", doing, std::generic_category().message(errno))};
}

}  // namespace

FrameSocket& FrameSocket::operator=(FrameSocket&& other) noexcept {
  if (this != &other) {
    end();
    socket_ = std::move(other.socket_);
    in_ = std::move(other.in_);
    have_ = other.have_;
    header_ = other.header_;
    pending_ = std::move(other.pending_);
    sent_ = other.sent_;
  }
  return *this;
}

FrameSocket::~FrameSocket() {
  end();
}

void FrameSocket::end() {
  if (socket_.valid()) (void)::shutdown(socket_.get(), SHUT_RDWR);
  socket_.close();
}

Result<bool> FrameSocket::read_up_to(size_t size) {
  in_.resize(size);
  while (have_ < size) {
    const ssize_t got = ::recv(socket_.get(), in_.data() + have_, size - have_, 0);
    if (got > 0) {
      have_ += static_cast<size_t>(got);
    } else if (got == 0) {
      return Status(Code::kPeerLost, "the connection was closed");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return false;
    } else if (errno != EINTR) {
      return lost("recv");
    }
  }
  return true;
}

Result<std::optional<Frame>> FrameSocket::read(size_t payload_most) {
  if (!header_) {
    const auto whole = read_up_to(kHeaderSize);
    if (!whole.ok()) return whole.status();
    if (!*whole) return std::optional<Frame>();
    const auto header = parse_header(in_, payload_most);
    if (!header.ok()) return header.status();
    header_ = *header;
  }
  const auto whole = read_up_to(kHeaderSize + header_->length + kMacSize);
  if (!whole.ok()) return whole.status();
  if (!*whole) return std::optional<Frame>();
  Frame frame{*header_, std::move(in_)};
  in_ = Bytes();
  have_ = 0;
  header_.reset();
  return std::optional<Frame>(std::move(frame));
}

Status FrameSocket::write(Bytes frame) {
  if (all_sent()) {
    pending_ = std::move(frame);
    sent_ = 0;
  } else {
    pending_.insert(pending_.end(), frame.begin(), frame.end());
  }
  return flush();
}

Status FrameSocket::flush() {
  while (!all_sent()) {
    const ssize_t sent =
        ::send(socket_.get(), pending_.data() + sent_, pending_.size() - sent_, MSG_NOSIGNAL);
    if (sent >= 0) {
      sent_ += static_cast<size_t>(sent);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return {};
    } else if (errno != EINTR) {
      return lost("send");
    }
  }
  return {};
}

bool wait_for(int descriptor, short events, TimePoint deadline) {
  while (true) {
    pollfd entry{descriptor, events, 0};
    const int ready = ::poll(&entry, 1, milliseconds_until(deadline, 10000));
    if (ready > 0) return true;
    if (Clock::now() >= deadline) return false;
  }
}

}  // namespace banyan
