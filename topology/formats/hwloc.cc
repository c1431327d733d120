// Reads this machine and files of machines through hwloc.
//
// hwloc reads its variables (HWLOC_XMLFILE, HWLOC_FSROOT, ...) when a topology is loaded, under a
// lock of its own; nothing here sets one, since the environment belongs to the process.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <hwloc.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/base/parse.h"
#include "topology/formats/hwloc_anew.h"
#include "topology/formats/hwloc_check.h"
#include "topology/formats/hwloc_machine.h"
#include "topology/pci.h"

namespace banyan {

namespace {

struct Destroy {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Handle = std::unique_ptr<hwloc_topology, Destroy>;

Handle make_handle() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return nullptr;
  return Handle(topology);
}

CpuSet set_of(hwloc_const_bitmap_t bitmap) {
  CpuSet set;
  if (bitmap == nullptr) return set;
  for (int bit = hwloc_bitmap_first(bitmap); bit >= 0 && bit < kMostCpus;
       bit = hwloc_bitmap_next(bitmap, bit))
    set.add(bit);
  return set;
}

std::string info(hwloc_obj_t object, const char* name) {
  const char* text = hwloc_obj_get_info_by_name(object, name);
  return text == nullptr ? std::string() : printable(std::string_view(text).substr(0, 200));
}

int number(const std::string& text) {
  int value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// Also of a type that is on several levels, as L3 caches where some are around NUMA domains.
std::vector<hwloc_obj_t> objects(hwloc_topology_t topology, hwloc_obj_type_t type) {
  std::vector<int> depths = {hwloc_get_type_depth(topology, type)};
  if (depths.front() == HWLOC_TYPE_DEPTH_MULTIPLE) {
    depths.clear();
    for (int depth = 0; depth < hwloc_topology_get_depth(topology); ++depth)
      if (hwloc_get_depth_type(topology, depth) == type) depths.push_back(depth);
  }
  std::vector<hwloc_obj_t> found;
  for (const int depth : depths)
    for (hwloc_obj_t object = nullptr;
         (object = hwloc_get_next_obj_by_depth(topology, depth, object)) != nullptr;)
      found.push_back(object);
  if (depths.size() > 1)
    std::stable_sort(found.begin(), found.end(), [](hwloc_obj_t a, hwloc_obj_t b) {
      return hwloc_bitmap_first(a->cpuset) < hwloc_bitmap_first(b->cpuset);
    });
  return found;
}

Processors processors_of(hwloc_topology_t topology) {
  Processors found;
  found.allowed = set_of(hwloc_topology_get_allowed_cpuset(topology));
  for (hwloc_obj_t core : objects(topology, HWLOC_OBJ_CORE))
    found.cores.push_back(set_of(core->cpuset));
  for (hwloc_obj_t package : objects(topology, HWLOC_OBJ_PACKAGE)) {
    found.packages.push_back(
        {.index = static_cast<int>(found.packages.size()), .cpus = set_of(package->cpuset)});
    found.vendor = info(package, "CPUVendor");
    found.model = info(package, "CPUModel");
    found.family = number(info(package, "CPUFamilyNumber"));
    found.model_number = number(info(package, "CPUModelNumber"));
  }
  for (hwloc_obj_t numa : objects(topology, HWLOC_OBJ_NUMANODE))
    found.numas.push_back({.index = static_cast<int>(numa->os_index),
                           .cpus = set_of(numa->cpuset),
                           .memory = numa->attr->numanode.local_memory});
  for (hwloc_obj_t cache : objects(topology, HWLOC_OBJ_L3CACHE))
    found.caches.push_back({.cpus = set_of(cache->cpuset), .memory = cache->attr->cache.size});
  std::sort(found.numas.begin(), found.numas.end(),
            [](const auto& a, const auto& b) { return a.index < b.index; });
  return found;
}

// Distances between NUMA domains, where there is one for every pair.
void add_distances(hwloc_topology_t topology, Processors& processors) {
  unsigned count = 1;
  hwloc_distances_s* distances = nullptr;
  if (hwloc_distances_get_by_name(topology, "NUMALatency", &count, &distances, 0) != 0 ||
      count == 0)
    return;
  std::map<int, size_t> place;
  for (unsigned i = 0; i < distances->nbobjs; ++i)
    if (distances->objs[i] != nullptr) place[static_cast<int>(distances->objs[i]->os_index)] = i;
  for (const ProcessorPart& from : processors.numas) {
    auto& row = processors.distances.emplace_back();
    for (const ProcessorPart& to : processors.numas) {
      if (place.count(from.index) == 0 || place.count(to.index) == 0) continue;
      row.push_back(static_cast<double>(
          distances->values[place[from.index] * distances->nbobjs + place[to.index]]));
    }
  }
  for (const auto& row : processors.distances)
    if (row.size() != processors.numas.size()) {
      processors.distances.clear();
      break;
    }
  hwloc_distances_release(topology, distances);
}

std::string bus_id_of(hwloc_obj_t object) {
  const auto& pci =
      object->type == HWLOC_OBJ_BRIDGE ? object->attr->bridge.upstream.pci : object->attr->pcidev;
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", static_cast<unsigned>(pci.domain),
                     static_cast<unsigned>(pci.bus), static_cast<unsigned>(pci.dev),
                     static_cast<unsigned>(pci.func));
}

// Finds the domain that an object's place is in, where that is one. Among several with the same
// processors (DRAM and HBM) it is the first. Those of parts around the place (CXL) are near to it,
// and no more.
int numa_of(hwloc_topology_t topology, hwloc_obj_t object) {
  const hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(topology, object);
  if (place == nullptr || place->nodeset == nullptr) return -1;
  const CpuSet inside = set_of(place->nodeset);
  if (inside.count() == 1) return inside.numbers().front();
  int nearest = -1;
  int outside = 0;
  for (hwloc_obj_t above = place; above != nullptr; above = above->parent) {
    for (hwloc_obj_t memory = above->memory_first_child; memory != nullptr;
         memory = memory->next_sibling) {
      outside += hwloc_bitmap_weight(memory->nodeset);
      if (nearest < 0) nearest = hwloc_bitmap_first(memory->nodeset);
    }
  }
  return outside == inside.count() ? nearest : -1;
}

bool is_network(hwloc_obj_t device) {
  const auto type = device->attr->osdev.type;
  return device->type == HWLOC_OBJ_OS_DEVICE &&
         (type == HWLOC_OBJ_OSDEV_OPENFABRICS || type == HWLOC_OBJ_OSDEV_NETWORK);
}

// Whatever its class says, as of some processors that are on a card.
bool has_network(hwloc_obj_t device) {
  for (hwloc_obj_t below = device->io_first_child; below != nullptr; below = below->next_sibling)
    if (is_network(below)) return true;
  return false;
}

std::string name_in(hwloc_obj_t device) {
  return device->name == nullptr ? std::string() : printable(trim(device->name));
}

// A device or bridge on PCI with what hwloc has on it.
PciFunction function_of(hwloc_topology_t topology, hwloc_obj_t object) {
  const bool bridge = object->type == HWLOC_OBJ_BRIDGE;
  const auto& pci = bridge ? object->attr->bridge.upstream.pci : object->attr->pcidev;
  PciFunction function{.bus_id = bus_id_of(object),
                       .use = pci_use(static_cast<uint32_t>(pci.class_id) << 8, pci.vendor_id),
                       .vendor = pci.vendor_id,
                       .numa = numa_of(topology, object)};
  if (bridge) function.use = PciUse::kBridge;
  if (function.use == PciUse::kOther && has_network(object)) function.use = PciUse::kNic;
  if (object->subtype != nullptr && std::string_view(object->subtype) == "NVSwitch")
    function.use = PciUse::kNvSwitch;
  if (pci.linkspeed > 0) {
    function.edge = {static_cast<double>(pci.linkspeed), Source::kHardware};
    function.text = kCurrentLink;  // hwloc reads what the PCI link runs at
  }
  const hwloc_obj_t parent = object->parent;
  if (parent != nullptr && parent->type == HWLOC_OBJ_BRIDGE &&
      parent->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI)
    function.parent = bus_id_of(parent);
  return function;
}

// What hwloc says of a GPU in its OS devices: the name by which drivers number it, and its memory.
void describe_gpu(hwloc_obj_t device, Vertex& gpu) {
  const std::string name = name_in(device);
  for (const std::string_view prefix : {"nvml", "rsmi", "cuda"}) {
    if (!name.starts_with(prefix)) continue;
    if (const int index = number(name.substr(prefix.size())); index >= 0 && gpu.index < 0)
      gpu.index = index;
  }
  if (std::string model = info(device, "GPUModel"); !model.empty()) gpu.model = model;
  for (const char* key : {"NVIDIAUUID", "AMDUUID"})
    if (std::string uuid = info(device, key); !uuid.empty()) gpu.guid = uuid;
  for (const char* key : {"RSMIVRAMSize", "CUDAGlobalMemorySize"}) {  // KiB
    const auto kib = parse_integer(info(device, key), 1, int64_t{1} << 40);
    if (kib.ok()) gpu.memory = static_cast<uint64_t>(*kib) * 1024;
  }
}

std::vector<Gid> gids_of(hwloc_obj_t device, int port) {
  std::map<int, Gid> gids;
  const std::string prefix = fmt::format("Port{}GID", port);
  for (unsigned i = 0; i < device->infos_count && gids.size() < kMostGids; ++i) {
    const std::string_view name = device->infos[i].name;
    if (!name.starts_with(prefix)) continue;
    const int index = number(std::string(name.substr(prefix.size())));
    std::string gid = set_id(printable(std::string_view(device->infos[i].value).substr(0, 200)));
    if (index >= 0 && !gid.empty()) gids[index] = {.index = index, .gid = std::move(gid)};
  }
  std::vector<Gid> sorted;
  for (auto& [index, gid] : gids) sorted.push_back(std::move(gid));
  return sorted;
}

// "4xNDR" is not in hwloc's files: a port has a state and GIDs, and no rate. The ports of a device
// without a name are named by the NIC, which has one by its bus id.
void describe_nic(Topology& topology, hwloc_obj_t device, int nic) {
  const std::string name = name_in(device);
  const bool rdma = device->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
  Vertex& vertex = topology.vertices[static_cast<size_t>(nic)];
  if (rdma) vertex.guid = set_id(info(device, "NodeGUID"));
  if (!name.empty() && (rdma || vertex.name.starts_with("nic-"))) vertex.name = name;
  const std::string port_name = name.empty() ? vertex.name : name;
  constexpr std::array<std::string_view, 6> kStates = {"NOP",   "DOWN",   "INIT",
                                                       "ARMED", "ACTIVE", "ACTIVE_DEFER"};
  for (int port = 1; port <= 4; ++port) {
    const std::string state = info(device, fmt::format("Port{}State", port).c_str());
    if (rdma ? state.empty() : port > 1) break;
    const auto number = parse_integer(state, 0, 5);
    add_vertex(topology,
               {.kind = VertexKind::kPort,
                .name = fmt::format("{}:{}", port_name, port),
                .parent = nic,
                .index = port,
                .guid = set_id(info(device, fmt::format("Port{}GID0", port).c_str())),
                .interface = rdma ? std::string() : name,
                .link_layer = rdma ? std::string() : "Ethernet",
                .state = number.ok() ? std::string(kStates[static_cast<size_t>(*number)]) : "",
                .gids = gids_of(device, port),
                .rate = {std::nullopt, Source::kHardware}});
  }
}

int add_bare_nic(hwloc_topology_t handle, Topology& topology, int node, hwloc_obj_t device) {
  const std::string name = name_in(device);
  return add_vertex(topology, {.kind = VertexKind::kNic,
                               .name = name.empty() ? "nic" : name,
                               .parent = numa_vertex(topology, node, numa_of(handle, device))});
}

void add_os_devices(hwloc_topology_t handle, Topology& topology, int node) {
  for (hwloc_obj_t device : objects(handle, HWLOC_OBJ_OS_DEVICE)) {
    if (device->parent == nullptr) continue;
    const bool network = is_network(device);
    // Interfaces may be on no PCI device.
    const bool bare = !hwloc_obj_type_is_io(device->parent->type);
    if (!bare && device->parent->type != HWLOC_OBJ_PCI_DEVICE) continue;
    const int vertex = bare ? network ? add_bare_nic(handle, topology, node, device) : -1
                            : find_bus_id(topology, node, bus_id_of(device->parent));
    if (vertex < 0) continue;
    const VertexKind kind = topology.vertices[static_cast<size_t>(vertex)].kind;
    if (kind == VertexKind::kGpu)
      describe_gpu(device, topology.vertices[static_cast<size_t>(vertex)]);
    if (kind == VertexKind::kNic && network) describe_nic(topology, device, vertex);
  }
  for (const int gpu : vertices_of(topology, VertexKind::kGpu)) {
    Vertex& vertex = topology.vertices[static_cast<size_t>(gpu)];
    if (vertex.index >= 0) vertex.name = fmt::format("gpu{}", vertex.index);
  }
}

// The vertex of what a matrix of distances is about.
int vertex_of(const Topology& topology, int node, hwloc_obj_t object) {
  while (object != nullptr && object->type == HWLOC_OBJ_OS_DEVICE) object = object->parent;
  if (object == nullptr) return -1;
  if (object->type == HWLOC_OBJ_PCI_DEVICE) return find_bus_id(topology, node, bus_id_of(object));
  return -1;
}

// hwloc has matrices in MB/s, each direction. Before 2.9.3 it doubles NVLink 3 and 4, and its XGMI
// is one constant; so they are a table's.
void add_matrix(hwloc_topology_t handle, Topology& topology, int node, const char* name,
                EdgeKind kind) {
  unsigned count = 1;
  hwloc_distances_s* matrix = nullptr;
  if (hwloc_distances_get_by_name(handle, name, &count, &matrix, 0) != 0 || count == 0) return;
  std::set<std::pair<int, int>> joined;  // several objects may be of one device
  for (size_t a = 0; a < matrix->nbobjs; ++a) {
    for (size_t b = a + 1; b < matrix->nbobjs; ++b) {
      const auto value = static_cast<double>(matrix->values[a * matrix->nbobjs + b]);
      const int from = vertex_of(topology, node, matrix->objs[a]);
      const int to = vertex_of(topology, node, matrix->objs[b]);
      if (from < 0 || to < 0 || from == to || value <= 0) continue;
      if (!joined.insert(std::minmax(from, to)).second) continue;
      topology.edges.push_back({.from = from,
                                .to = to,
                                .kind = kind,
                                .bandwidth = {value / 1000, Source::kTable},
                                .text = "hwloc's " + std::string(name)});
    }
  }
  hwloc_distances_release(handle, matrix);
}

Topology topology_of(hwloc_topology_t handle) {
  Topology topology = empty_topology();
  const hwloc_obj_t machine = hwloc_get_root_obj(handle);
  std::string name = info(machine, "HostName");
  const int node = add_vertex(topology, {.kind = VertexKind::kNode,
                                         .name = name.empty() ? "node" : std::move(name),
                                         .parent = 0,
                                         .vendor = info(machine, "DMISysVendor"),
                                         .model = info(machine, "DMIProductName")});
  Processors processors = processors_of(handle);
  add_distances(handle, processors);
  add_processors(topology, node, processors);
  std::vector<PciFunction> functions;
  for (const hwloc_obj_type_t type : {HWLOC_OBJ_BRIDGE, HWLOC_OBJ_PCI_DEVICE})
    for (hwloc_obj_t object : objects(handle, type))
      if (type == HWLOC_OBJ_PCI_DEVICE ||
          object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI)
        functions.push_back(function_of(handle, object));
  add_pci(topology, node, functions);
  add_os_devices(handle, topology, node);
  add_matrix(handle, topology, node, "NVLinkBandwidth", EdgeKind::kNvlink);
  add_matrix(handle, topology, node, "XGMIBandwidth", EdgeKind::kXgmi);
  return topology;
}

}  // namespace

std::optional<Processors> hwloc_processors() {
  const Handle handle = make_handle();
  if (handle == nullptr) return std::nullopt;
  // Devices are sysfs's to tell, and drivers of graphics nothing to start.
  hwloc_topology_set_io_types_filter(handle.get(), HWLOC_TYPE_FILTER_KEEP_NONE);
  if (hwloc_topology_load(handle.get()) != 0) return std::nullopt;
  Processors processors = processors_of(handle.get());
  add_distances(handle.get(), processors);
  // hwloc's set is that of the cgroup; the process may be bound to less.
  const std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)> bound(hwloc_bitmap_alloc(),
                                                                            &hwloc_bitmap_free);
  if (bound != nullptr && hwloc_get_cpubind(handle.get(), bound.get(), HWLOC_CPUBIND_PROCESS) == 0)
    processors.allowed &= set_of(bound.get());
  return processors;
}

Result<Topology> read_hwloc_xml(const XmlElement& root, Notes& notes) {
  BANYAN_TRY(check_hwloc_xml(root));
  const auto text = hwloc_anew(root, notes);
  BANYAN_TRY(text.status());
  const Handle handle = make_handle();
  if (handle == nullptr) return Status(Code::kSystem, "hwloc_topology_init failed");
  hwloc_topology_set_io_types_filter(handle.get(), HWLOC_TYPE_FILTER_KEEP_ALL);
  // hwloc wants the end of the text to be in it.
  if (hwloc_topology_set_xmlbuffer(handle.get(), text->c_str(),
                                   static_cast<int>(text->size()) + 1) != 0 ||
      hwloc_topology_load(handle.get()) != 0)
    return Status(
        Code::kInvalidArgument,
        fmt::format("line {}: hwloc does not take this XML as a machine of version 1 or 2",
                    root.line));
  Topology topology = topology_of(handle.get());
  make_texts_valid(topology);
  if (const Status status = check(topology); !status.ok())
    return Status(status.code(), fmt::format("line {}: {}", root.line, status.message()));
  return canonical(topology);
}

}  // namespace banyan
