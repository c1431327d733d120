// The wire between hosts is UCX's: tagged messages over TCP, RDMA or whatever else it has.
//
// Every transport has a context and a worker of its own, so that communicators and threads share
// nothing. UCX's shared memory is left out: it has names, which outlive a killed process, and
// inside a host our own transport is there.
// SPDX-License-Identifier: Apache-2.0

#include <dlfcn.h>
#include <fmt/format.h>
#include <ucp/api/ucp.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "transports/framed/framed.h"
#include "transports/framed/ucs_words.h"
#include "transports/framed/ucx_network.h"
#include "transports/kinds.h"

namespace banyan {
namespace {

constexpr const char* kTransports = "^posix,sysv";

// As much as one call to the kernel sends or brings: 256 KiB, and UCX's headers.
constexpr const char* kTcpReceives = "257k";
// The longest payload that is worth two copies to spare a message of its own.
constexpr size_t kTcpShortMost = 64 << 10;
constexpr size_t kRdmaShortMost = 8 << 10;
constexpr double kClosePatience = 0.2;

// UCX is opened when it is first needed: merely being loaded, it takes over signals and patches
// functions of libc, which a program that stays inside its host should not have to bear.
struct Ucp {
  decltype(&::ucp_cleanup) cleanup = nullptr;
  decltype(&::ucp_config_modify) config_modify = nullptr;
  decltype(&::ucp_config_read) config_read = nullptr;
  decltype(&::ucp_config_release) config_release = nullptr;
  decltype(&::ucp_context_query) context_query = nullptr;
  decltype(&::ucp_ep_close_nbx) ep_close_nbx = nullptr;
  decltype(&::ucp_ep_create) ep_create = nullptr;
  decltype(&::ucp_get_version_string) get_version_string = nullptr;
  decltype(&::ucp_init_version) init_version = nullptr;
  decltype(&::ucp_request_cancel) request_cancel = nullptr;
  decltype(&::ucp_request_free) request_free = nullptr;
  decltype(&::ucp_tag_msg_recv_nbx) tag_msg_recv_nbx = nullptr;
  decltype(&::ucp_tag_probe_nb) tag_probe_nb = nullptr;
  decltype(&::ucp_tag_recv_nbx) tag_recv_nbx = nullptr;
  decltype(&::ucp_tag_send_nbx) tag_send_nbx = nullptr;
  decltype(&::ucp_worker_arm) worker_arm = nullptr;
  decltype(&::ucp_worker_create) worker_create = nullptr;
  decltype(&::ucp_worker_destroy) worker_destroy = nullptr;
  decltype(&::ucp_worker_flush_nbx) worker_flush_nbx = nullptr;
  decltype(&::ucp_worker_get_address) worker_get_address = nullptr;
  decltype(&::ucp_worker_get_efd) worker_get_efd = nullptr;
  decltype(&::ucp_worker_progress) worker_progress = nullptr;
  decltype(&::ucp_worker_release_address) worker_release_address = nullptr;
  decltype(&::ucs_status_string) status_string = nullptr;
  // Without these it works, and says less.
  decltype(&::ucp_ep_print_info) ep_print_info = nullptr;
  UcsLog log;
};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

// It stays loaded for the life of the process: its threads and hooks cannot be taken back.
Result<Ucp> open_ucp() {
  void* library = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    return Status(Code::kUnsupported,
                  fmt::format("UCX is not on this machine ({}); install libucx0 (Debian, Ubuntu) "
                              "or ucx (Fedora, RHEL)",
                              dlerror()));  // NOLINT(concurrency-mt-unsafe): per thread in glibc
  }
  Ucp ucp;
  const bool complete = find(library, "ucp_cleanup", ucp.cleanup) &&
                        find(library, "ucp_config_modify", ucp.config_modify) &&
                        find(library, "ucp_config_read", ucp.config_read) &&
                        find(library, "ucp_config_release", ucp.config_release) &&
                        find(library, "ucp_context_query", ucp.context_query) &&
                        find(library, "ucp_ep_close_nbx", ucp.ep_close_nbx) &&
                        find(library, "ucp_ep_create", ucp.ep_create) &&
                        find(library, "ucp_get_version_string", ucp.get_version_string) &&
                        find(library, "ucp_init_version", ucp.init_version) &&
                        find(library, "ucp_request_cancel", ucp.request_cancel) &&
                        find(library, "ucp_request_free", ucp.request_free) &&
                        find(library, "ucp_tag_msg_recv_nbx", ucp.tag_msg_recv_nbx) &&
                        find(library, "ucp_tag_probe_nb", ucp.tag_probe_nb) &&
                        find(library, "ucp_tag_recv_nbx", ucp.tag_recv_nbx) &&
                        find(library, "ucp_tag_send_nbx", ucp.tag_send_nbx) &&
                        find(library, "ucp_worker_arm", ucp.worker_arm) &&
                        find(library, "ucp_worker_create", ucp.worker_create) &&
                        find(library, "ucp_worker_destroy", ucp.worker_destroy) &&
                        find(library, "ucp_worker_flush_nbx", ucp.worker_flush_nbx) &&
                        find(library, "ucp_worker_get_address", ucp.worker_get_address) &&
                        find(library, "ucp_worker_get_efd", ucp.worker_get_efd) &&
                        find(library, "ucp_worker_progress", ucp.worker_progress) &&
                        find(library, "ucp_worker_release_address", ucp.worker_release_address) &&
                        find(library, "ucs_status_string", ucp.status_string);
  (void)find(library, "ucp_ep_print_info", ucp.ep_print_info);
  ucp.log = UcsLog::find_in(library);
  dlclose(library);
  if (complete) return ucp;
  return Status(Code::kUnsupported, "UCX on this machine is too old; 1.10 or later is needed");
}

Status failed(const Ucp& ucp, std::string_view what, ucs_status_t status) {
  return {Code::kSystem, fmt::format("UCX: {}: {}", what, ucp.status_string(status))};
}

Code code_of(ucs_status_t status) {
  if (status == UCS_OK) return Code::kOk;
  if (status == UCS_ERR_CANCELED) return Code::kAborted;
  if (status == UCS_ERR_MESSAGE_TRUNCATED) return Code::kCorrupt;
  return Code::kPeerLost;
}

void finish(WireOperation& operation, ucs_status_t status, size_t bytes) {
  operation.code = code_of(status);
  operation.bytes = bytes;
  operation.state = WireOperation::State::kDone;
}

// Is called when UCX is done with a request. Where it says so within the call that made the
// request, that call still returns it: then follow() frees it.
void release(WireOperation& operation) {
  if (operation.request != nullptr) {
    operation.free_request(std::exchange(operation.request, nullptr));
  }
}

void on_sent(void* /*request*/, ucs_status_t status, void* data) {
  auto& operation = *static_cast<WireOperation*>(data);
  finish(operation, status, 0);
  release(operation);
}

void on_received(void* /*request*/, ucs_status_t status, const ucp_tag_recv_info_t* info,
                 void* data) {
  auto& operation = *static_cast<WireOperation*>(data);
  finish(operation, status, status == UCS_OK ? info->length : 0);
  release(operation);
}

ucp_request_param_t parameters_for(WireOperation& operation) {
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  parameters.user_data = &operation;
  return parameters;
}

// A UCX that knows GPUs asks of each address whose memory it is, unless it is told.
ucp_request_param_t parameters_for(WireOperation& operation, MemoryKind kind) {
  ucp_request_param_t parameters = parameters_for(operation);
  parameters.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  parameters.memory_type =
      kind == MemoryKind::kDevice ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST;
  return parameters;
}

// What a call of UCX returned: nothing (done), a request or an error.
void follow(WireOperation& operation, ucs_status_ptr_t result) {
  if (!UCS_PTR_IS_PTR(result)) return finish(operation, UCS_PTR_STATUS(result), 0);
  operation.request = result;
  if (operation.done()) release(operation);
}

struct Endpoint {
  ucp_ep_h handle = nullptr;
  bool lost = false;
};

void on_error(void* endpoint, ucp_ep_h /*handle*/, ucs_status_t /*status*/) {
  static_cast<Endpoint*>(endpoint)->lost = true;
}

class UcxWire final : public Wire {
 public:
  static Result<std::unique_ptr<UcxWire>> create(const Ucp& ucp, const Wiring& wiring,
                                                 const Network& network);
  ~UcxWire() override;
  UcxWire(const UcxWire&) = delete;
  UcxWire& operator=(const UcxWire&) = delete;

  std::string_view version() const { return ucp_.get_version_string(); }
  // "tcp/eth0", what carries messages to a peer; empty: UCX does not say.
  std::vector<std::string> lanes(int peer) const;
  Result<Bytes> address() const;
  Status connect(int peer, std::span<const std::byte> address);

  bool reaches_gpus() const override { return reaches_gpus_; }

  void send(int peer, uint64_t tag, const std::byte* memory, size_t bytes, MemoryKind kind,
            WireOperation& operation) override {
    begin(operation);
    if (endpoints_[peer].lost) return finish(operation, UCS_ERR_ENDPOINT_TIMEOUT, 0);
    sent_ = true;
    ucp_request_param_t parameters = parameters_for(operation, kind);
    parameters.cb.send = on_sent;
    follow(operation, ucp_.tag_send_nbx(endpoints_[peer].handle, memory, bytes, tag, &parameters));
  }

  void receive(uint64_t tag, std::byte* memory, size_t bytes, MemoryKind kind,
               WireOperation& operation) override {
    begin(operation);
    ucp_request_param_t parameters = parameters_for(operation, kind);
    // Without this, UCX 1.13 does not tell the length of some messages that are there already.
    parameters.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    parameters.cb.recv = on_received;
    follow(operation, ucp_.tag_recv_nbx(worker_, memory, bytes, tag, ~ucp_tag_t{0}, &parameters));
  }

  void cancel(WireOperation& operation) override {
    if (operation.request != nullptr) ucp_.request_cancel(worker_, operation.request);
  }

  void close() override {
    for (Endpoint& endpoint : endpoints_) endpoint.lost = true;
    close_endpoints();
  }

  void flush(WireOperation& operation) override {
    begin(operation);
    ucp_request_param_t parameters = parameters_for(operation);
    parameters.cb.send = on_sent;
    follow(operation, ucp_.worker_flush_nbx(worker_, &parameters));
  }

  // Over TCP what is done may still wait for a socket; adapters go on by themselves.
  bool settled() override {
    if (!only_tcp_) return true;
    if (!settling_.pending() && std::exchange(sent_, false)) flush(settling_);
    return !settling_.pending();
  }

  bool progress() override { return ucp_.worker_progress(worker_) != 0; }
  bool lost(int peer) const override { return endpoints_[peer].lost; }
  bool arm() override { return ucp_.worker_arm(worker_) == UCS_OK; }
  int descriptor() const override { return descriptor_; }

 private:
  UcxWire(const Ucp& ucp, int size, bool only_tcp)
      : ucp_(ucp), only_tcp_(only_tcp), endpoints_(size) {}
  void begin(WireOperation& operation) const {
    operation = {};
    operation.state = WireOperation::State::kPending;
    operation.free_request = ucp_.request_free;
  }
  Status make_context(const Wiring& wiring, const Network& network);
  bool knows_gpus() const;
  Status make_worker();
  void close_endpoints();
  void drop_unexpected();

  Ucp ucp_;
  bool only_tcp_;
  bool reaches_gpus_ = false;
  bool sent_ = false;  // since the last flush for settled() began
  WireOperation settling_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int descriptor_ = -1;
  std::vector<Endpoint> endpoints_;  // by rank; never resized: UCX has their addresses
};

Status UcxWire::make_context(const Wiring& wiring, const Network& network) {
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_.config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return failed(ucp_, "reading its configuration", status);
  status = ucp_.config_modify(config, "TLS", kTransports);
  const std::string& devices = network.devices;
  if (status == UCS_OK && !devices.empty()) {
    status = ucp_.config_modify(config, "NET_DEVICES", devices.c_str());
  }
  // Its warnings would name variables of ours, and a program's users see only what we say.
  if (status == UCS_OK) status = ucp_.config_modify(config, "WARN_UNUSED_ENV_VARS", "n");
  if (network.only_tcp) {  // a version that lacks one of them is only slower
    const TcpLengths& lengths = network.one_host ? kInOneHost : kBetweenHosts;
    (void)ucp_.config_modify(config, "RNDV_THRESH", lengths.eager_below);
    (void)ucp_.config_modify(config, "RX_SEG_SIZE", kTcpReceives);
  }
  ucp_params_t parameters{};
  parameters.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
  parameters.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  parameters.estimated_num_eps = static_cast<size_t>(wiring.size());
  if (status == UCS_OK)
    status = ucp_.init_version(UCP_API_MAJOR, UCP_API_MINOR, &parameters, config, &context_);
  ucp_.config_release(config);
  if (status == UCS_OK) return {};
  return devices.empty() ? failed(ucp_, "no network that it can use", status)
                         : failed(ucp_, fmt::format("BANYAN_NET_DEVICES={}", devices), status);
}

bool UcxWire::knows_gpus() const {
  ucp_context_attr_t known{};
  known.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  return ucp_.context_query(context_, &known) == UCS_OK &&
         (known.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;
}

Status UcxWire::make_worker() {
  ucp_worker_params_t parameters{};
  parameters.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS;
  parameters.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  // No warning of receives whose message ended in its middle, with the peer.
  parameters.flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK;
  ucs_status_t status = ucp_.worker_create(context_, &parameters, &worker_);
  if (status != UCS_OK) return failed(ucp_, "creating a worker", status);
  status = ucp_.worker_get_efd(worker_, &descriptor_);
  if (status != UCS_OK) return failed(ucp_, "a descriptor to wait on", status);
  return {};
}

Result<std::unique_ptr<UcxWire>> UcxWire::create(const Ucp& ucp, const Wiring& wiring,
                                                 const Network& network) {
  std::unique_ptr<UcxWire> wire(new UcxWire(ucp, wiring.size(), network.only_tcp));
  BANYAN_TRY(wire->make_context(wiring, network));
  const bool knows = wire->knows_gpus();
  wire->reaches_gpus_ = knows && wiring.gpu_direct().value_or(!network.only_tcp);
  if (wiring.gpu_direct().value_or(false) && !knows)
    BANYAN_LOG(wiring.log(), Subsystem::kNet, LogLevel::kWarn,
               "BANYAN_GPU_DIRECT=on: UCX {} here knows no GPUs, so messages go by the host; a UCX "
               "built with CUDA would be right",
               wire->version());
  BANYAN_TRY(wire->make_worker());
  return wire;
}

Result<Bytes> UcxWire::address() const {
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  const ucs_status_t status = ucp_.worker_get_address(worker_, &address, &bytes);
  if (status != UCS_OK) return failed(ucp_, "its own address", status);
  const auto* first = reinterpret_cast<const std::byte*>(address);
  Bytes result(first, first + bytes);
  ucp_.worker_release_address(worker_, address);
  return result;
}

Status UcxWire::connect(int peer, std::span<const std::byte> address) {
  ucp_ep_params_t parameters{};
  parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLER |
                          UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
  parameters.address = reinterpret_cast<const ucp_address_t*>(address.data());
  parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  parameters.err_handler = {.cb = on_error, .arg = &endpoints_[peer]};
  const ucs_status_t status = ucp_.ep_create(worker_, &parameters, &endpoints_[peer].handle);
  return status == UCS_OK ? Status()
                          : failed(ucp_, fmt::format("connecting to rank {}", peer), status);
}

std::vector<std::string> UcxWire::lanes(int peer) const {
  if (ucp_.ep_print_info == nullptr) return {};
  char* text = nullptr;
  size_t bytes = 0;
  std::FILE* const stream = ::open_memstream(&text, &bytes);
  if (stream == nullptr) return {};
  ucp_.ep_print_info(endpoints_[peer].handle, stream);
  (void)std::fclose(stream);
  const std::unique_ptr<char, void (*)(void*)> owner(text, std::free);
  return lanes_in(std::string_view(text, bytes));
}

// In good order where the peer is there, within bounded time everywhere.
void UcxWire::close_endpoints() {
  std::vector<WireOperation> closing(endpoints_.size());
  for (size_t i = 0; i < endpoints_.size(); ++i) {
    if (endpoints_[i].handle == nullptr) continue;
    begin(closing[i]);
    ucp_request_param_t parameters = parameters_for(closing[i]);
    parameters.cb.send = on_sent;
    parameters.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    parameters.flags = endpoints_[i].lost ? UCP_EP_CLOSE_FLAG_FORCE : 0;
    follow(closing[i], ucp_.ep_close_nbx(endpoints_[i].handle, &parameters));
    endpoints_[i].handle = nullptr;
  }
  const TimePoint deadline = deadline_after(kClosePatience);
  for (const WireOperation& operation : closing) {
    while (operation.pending() && Clock::now() < deadline) ucp_.worker_progress(worker_);
  }
  // The worker waits for nobody; what it still calls back must not be ours any more.
  for (WireOperation& operation : closing) {
    if (operation.pending()) ucp_.request_free(operation.request);
  }
}

// Takes what came and nobody receives any more, after a failure: UCX warns of each such message
// on stderr, and of its parts. None has an endpoint to answer through.
void UcxWire::drop_unexpected() {
  ucp_tag_recv_info_t info{};
  std::byte nothing{};
  while (ucp_tag_message_h message = ucp_.tag_probe_nb(worker_, 0, 0, 1, &info)) {
    const ucp_request_param_t parameters{};
    const ucs_status_ptr_t request =
        ucp_.tag_msg_recv_nbx(worker_, &nothing, 0, message, &parameters);
    if (UCS_PTR_IS_PTR(request)) ucp_.request_free(request);
  }
}

UcxWire::~UcxWire() {
  if (worker_ != nullptr) {
    close_endpoints();
    drop_unexpected();
    ucp_.worker_destroy(worker_);
  }
  if (context_ != nullptr) ucp_.cleanup(context_);
}

Result<std::unique_ptr<Transport>> connect_ucx(Wiring& wiring, std::span<const int> peers) {
  if (peers.empty()) {
    BANYAN_TRY(wiring.allgather({}).status());
    return std::unique_ptr<Transport>();
  }
  std::vector<WireOperation> greetings;
  const Result<Network> network = network_of(wiring);
  BANYAN_TRY(network.status());
  const Result<Ucp> ucp = open_ucp();
  BANYAN_TRY(ucp.status());
  const UcsWords words(ucp->log, wiring.log());
  auto wire = UcxWire::create(*ucp, wiring, *network);
  BANYAN_TRY(wire.status());
  auto address = (*wire)->address();
  BANYAN_TRY(address.status());
  address->insert(address->begin(), {std::byte{network->only_tcp}, std::byte{network->one_host}});
  const auto given = wiring.allgather(*address);
  BANYAN_TRY(given.status());
  for (const int peer : peers) {
    if (peer < 0 || peer >= wiring.size() || (*given)[peer].size() <= kClaims) {
      return Status(Code::kInvalidArgument,
                    fmt::format("rank {} has no UCX address for rank {}", peer, wiring.rank()));
    }
    const Status made = (*wire)->connect(peer, std::span((*given)[peer]).subspan(kClaims));
    if (!made.ok()) return over(network->devices, made);
  }
  const Status greeted = greet(**wire, wiring, peers, greetings);
  if (greeted.code() == Code::kTimeout) return over(network->devices, greeted);
  BANYAN_TRY(greeted);
  if (wiring.log().enabled(Subsystem::kNet, LogLevel::kInfo)) {
    std::vector<std::vector<std::string>> lanes;
    for (const int peer : peers) lanes.push_back((*wire)->lanes(peer));
    BANYAN_LOG(wiring.log(), Subsystem::kNet, LogLevel::kInfo, "ucx {}: {}{}", (*wire)->version(),
               who_is_reached(wiring, peers, lanes),
               (*wire)->reaches_gpus() ? "; straight from and to the memory of GPUs" : "");
  }
  const size_t best = all_claim(kOnlyTcp, *given) ? kTcpShortMost : kRdmaShortMost;
  const TcpLengths& lengths = all_claim(kOneHost, *given) ? kInOneHost : kBetweenHosts;
  return make_framed_transport("ucx", std::move(*wire), short_payload_most(best, wiring.size()),
                               lengths.pieces, wiring, peers);
}

}  // namespace

TransportKind ucx_kind() {
  return {.name = "ucx",
          .text = "between hosts, over whatever UCX has: tcp, RDMA",
          .in_memory = false,
          .missing = [] { return std::string(); },
          .reaches = [](const Wiring::Peer&) { return true; },
          .connect = connect_ucx};
}

}  // namespace banyan
