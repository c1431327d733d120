// Without sets that nest, objects in their order, processors and memory, hwloc would end the
// process or write to stderr.
// SPDX-License-Identifier: Apache-2.0

#include "topology/formats/hwloc_check.h"

#include <fmt/core.h>
#include <hwloc.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "src/base/parse.h"
#include "topology/cpu_set.h"

namespace banyan {

namespace {

struct Free {
  void operator()(hwloc_bitmap_s* set) const { hwloc_bitmap_free(set); }
};
using Set = std::unique_ptr<hwloc_bitmap_s, Free>;  // null: there is none

constexpr std::array<const char*, 4> kSets = {"cpuset", "complete_cpuset", "nodeset",
                                              "complete_nodeset"};
constexpr size_t kCpus = 0;
constexpr size_t kCompleteCpus = 1;
constexpr size_t kNodes = 2;
constexpr size_t kCompleteNodes = 3;

// hwloc writes a comma between 32 numbers and the next.
constexpr std::ptrdiff_t kMostCommas = kMostCpus / 32 - 1;

using Sets = std::array<Set, kSets.size()>;

std::string name_of(const XmlElement& object) {
  const std::string* type = object.find("type");
  return fmt::format("<object type=\"{}\">",
                     printable(type == nullptr ? "" : std::string_view(*type).substr(0, 40)));
}

// Finds a type by whichever of its names, as hwloc takes it. What hwloc knows in version 1 alone is
// HWLOC_OBJ_TYPE_MAX, but for "System", its other name of a machine.
hwloc_obj_type_t type_of(const XmlElement& object, bool second) {
  const std::string* text = object.find("type");
  hwloc_obj_type_t type = HWLOC_OBJ_TYPE_MAX;
  if (text == nullptr) return type;
  if (!second && *text == "System") return HWLOC_OBJ_MACHINE;
  return hwloc_type_sscanf(text->c_str(), &type, nullptr, 0) == 0 ? type : HWLOC_OBJ_TYPE_MAX;
}

bool is_device(hwloc_obj_type_t type) {
  return type == HWLOC_OBJ_BRIDGE || type == HWLOC_OBJ_PCI_DEVICE || type == HWLOC_OBJ_OS_DEVICE ||
         type == HWLOC_OBJ_MISC;
}

Set set_in(const XmlElement& object, const char* name) {
  Set set;
  const std::string* text = object.find(name);
  if (text == nullptr) return set;
  set.reset(hwloc_bitmap_alloc());
  if (set != nullptr) hwloc_bitmap_sscanf(set.get(), text->c_str());
  return set;
}

bool holds_object(const XmlElement& object) {
  return std::any_of(object.children.begin(), object.children.end(),
                     [](const XmlElement& child) { return child.name == "object"; });
}

bool meet(const Set& a, const Set& b) {
  return a == nullptr || b == nullptr || hwloc_bitmap_intersects(a.get(), b.get()) != 0;
}

// Checks the texts of sets, also outside of objects. Every object is compared with those around and
// before it. Without an end to its sets, a file of many objects in a large one would take time by
// the square of its size. Where a text is empty or begins with a comma, hwloc reads beyond it, or
// ends the process.
Status check_texts(const XmlElement& element) {
  for (const auto& [name, text] : element.attributes) {
    if (!name.ends_with("set")) continue;
    if (text.empty() || text.front() == ',')
      return wrong_element(
          element, fmt::format("{}=\"{}\"; right are hexadecimal numbers",
                               printable(name.substr(0, 40)), printable(text.substr(0, 40))));
    if (std::count(text.begin(), text.end(), ',') > kMostCommas)
      return wrong_element(element, fmt::format("{} of more than {} numbers",
                                                printable(name.substr(0, 40)), kMostCpus));
  }
  for (const XmlElement& child : element.children) BANYAN_TRY(check_texts(child));
  return {};
}

class XmlCheck {
 public:
  static Status check(const XmlElement& root) {
    const std::string* version = root.find("version");
    BANYAN_TRY(check_texts(root));
    XmlCheck check(version != nullptr && version->starts_with("2."));
    int machines = 0;
    for (const XmlElement& object : root.children) {
      if (object.name != "object") continue;
      if (++machines > 1)
        return wrong_element(object, "a second <object> in <topology>; right is one");
      // hwloc ends the process where that is memory.
      if (type_of(object, check.second_) != HWLOC_OBJ_MACHINE)
        return wrong_element(object, name_of(object) + " in <topology>; right is a Machine");
      check.has_nodes_ =
          object.find(kSets[kNodes]) != nullptr && object.find(kSets[kCompleteNodes]) != nullptr;
      check.allowed_cpus_ = set_in(object, "allowed_cpuset");
      check.allowed_nodes_ = set_in(object, "allowed_nodeset");
      // hwloc makes the node 0 for a machine of version 1 that tells of none.
      check.makes_memory_ = !check.second_ && object.find(kSets[kNodes]) == nullptr &&
                            (check.allowed_nodes_ == nullptr ||
                             hwloc_bitmap_isset(check.allowed_nodes_.get(), 0) != 0);
    }
    BANYAN_TRY(check.objects_in(root, HWLOC_OBJ_TYPE_MAX, Sets{}));
    if (!check.processors_) return wrong_element(root, "no <object> of type PU that is allowed");
    if (check.any_memory_ ? !check.memory_ : !check.makes_memory_)
      return wrong_element(root, "no <object> of type NUMANode that is allowed");
    return {};
  }

 private:
  explicit XmlCheck(bool second) : second_(second) {}

  // Depth is limited by parse_xml().
  Status objects_in(const XmlElement& parent, hwloc_obj_type_t around, const Sets& outer) {
    Set before;
    for (const XmlElement& object : parent.children) {
      if (object.name != "object") continue;
      const hwloc_obj_type_t type = type_of(object, second_);
      Sets sets;
      for (size_t i = 0; i < sets.size(); ++i) sets[i] = set_in(object, kSets[i]);
      if (!is_device(type)) {
        if (is_device(around)) return wrong_element(object, name_of(object) + " within a device");
        BANYAN_TRY(check_number(object, type));
        // hwloc adds it to the sets of the Machine.
        if (type == HWLOC_OBJ_NUMANODE && !has_nodes_)
          return wrong_element(
              object, name_of(object) + " in a Machine without nodeset or complete_nodeset");
        BANYAN_TRY(check_sets(object, type, sets, outer));
        note(type, sets);
      }
      BANYAN_TRY(objects_in(object, type, sets));
      if (!is_device(type)) BANYAN_TRY(check_order(object, type, sets, &before));
    }
    return {};
  }

  // hwloc sets that bit of a set, of which one without a number has 2^32.
  static Status check_number(const XmlElement& object, hwloc_obj_type_t type) {
    if (type != HWLOC_OBJ_PU && type != HWLOC_OBJ_NUMANODE) return {};
    const std::string* text = object.find("os_index");
    const auto number =
        parse_integer(text == nullptr ? std::string_view() : *text, 0, kMostCpus - 1);
    if (number.ok()) return {};
    return wrong_element(
        object, fmt::format("os_index of {}: {}", name_of(object), number.status().message()));
  }

  void note(hwloc_obj_type_t type, const Sets& sets) {
    if (type == HWLOC_OBJ_NUMANODE) {
      any_memory_ = true;
      memory_ = memory_ || meet(allowed_nodes_, sets[kNodes]);
    }
    if (type == HWLOC_OBJ_PU) processors_ = processors_ || meet(allowed_cpus_, sets[kCpus]);
  }

  // Groups of version 1 may lack some, and are left out then.
  Status check_sets(const XmlElement& object, hwloc_obj_type_t type, const Sets& sets,
                    const Sets& outer) const {
    for (size_t i = 0; i < sets.size(); ++i) {
      const hwloc_const_bitmap_t set = sets[i].get();
      const bool needed = second_ || (i <= kCompleteCpus && type != HWLOC_OBJ_GROUP);
      if (needed && set == nullptr)
        return wrong_element(object, fmt::format("{} without {}", name_of(object), kSets[i]));
      const hwloc_const_bitmap_t around = outer[i].get();
      if (second_ && around != nullptr && hwloc_bitmap_isincluded(set, around) == 0)
        return wrong_element(
            object, fmt::format("{} of {} is not within that of the <object> around it", kSets[i],
                                name_of(object)));
    }
    const hwloc_const_bitmap_t cpus = sets[kCpus].get();
    const hwloc_const_bitmap_t complete = sets[kCompleteCpus].get();
    if (cpus != nullptr && complete != nullptr && hwloc_bitmap_isincluded(cpus, complete) == 0)
      return wrong_element(
          object, fmt::format("cpuset of {} is not within its complete_cpuset", name_of(object)));
    return {};
  }

  // hwloc puts what a NUMANode of version 1 holds into a group of its cpuset.
  Status check_order(const XmlElement& object, hwloc_obj_type_t type, Sets& sets,
                     Set* before) const {
    const bool memory = type == HWLOC_OBJ_NUMANODE || type == HWLOC_OBJ_MEMCACHE;
    Set& own = sets[memory ? kCpus : kCompleteCpus];
    if (own == nullptr) return {};
    if (memory && (second_ || (hwloc_bitmap_iszero(own.get()) != 0 && !holds_object(object))))
      return {};
    if (*before != nullptr && hwloc_bitmap_compare_first(own.get(), before->get()) < 0)
      return wrong_element(object,
                           "its processors come before those of the <object> before it; right "
                           "are objects in the order of their processors");
    *before = std::move(own);
    return {};
  }

  const bool second_;   // version 2
  Set allowed_cpus_{};  // none: all are
  Set allowed_nodes_{};
  bool has_nodes_ = false;  // the Machine
  bool makes_memory_ = false;
  bool any_memory_ = false;
  bool memory_ = false;  // that is allowed
  bool processors_ = false;
};

}  // namespace

HwlocKind hwloc_kind(const XmlElement& object) {
  const auto begins = [&](const char* attribute, std::initializer_list<std::string_view> texts) {
    const std::string* text = object.find(attribute);
    return text != nullptr && std::any_of(texts.begin(), texts.end(), [&](std::string_view each) {
             return text->starts_with(each);
           });
  };
  switch (type_of(object, true)) {
    case HWLOC_OBJ_PCI_DEVICE: return HwlocKind::kPciDevice;
    case HWLOC_OBJ_BRIDGE:
      return begins("bridge_type", {"1-"}) ? HwlocKind::kPciBridge : HwlocKind::kOther;
    case HWLOC_OBJ_OS_DEVICE:
      return begins("osdev_type", {"1", "5"}) ? HwlocKind::kAccelerator : HwlocKind::kOther;
    default: return HwlocKind::kOther;  // types, of which hwloc has many
  }
}

Status check_hwloc_xml(const XmlElement& root) {
  return XmlCheck::check(root);
}

}  // namespace banyan
