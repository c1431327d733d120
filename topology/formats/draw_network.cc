// The network: switches tier by tier above what they join.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "topology/formats/draw.h"

namespace banyan {

namespace {

constexpr int kBetween = 24;  // between tiers, for the label of what joins them
constexpr int kMostCard = 200;
constexpr int kLeastSite = 260;
constexpr size_t kMostShown = 4;

std::string tier_text(const Tier& tier) {
  const size_t count = tier.switches.size();
  switch (tier.number) {
    case 0: return fmt::format("{} beside the tiers", counted(count, "switch"));
    case 1: return counted(count, "leaf switch");
    case 2: return counted(count, "spine switch");
  }
  return fmt::format("{} of tier {}", counted(count, "switch"), tier.number);
}

Picture draw_card(const Topology& topology, const Card& card) {
  HeadedBox box{.colours = colours_of(VertexKind::kNode)};
  box.several = card.nodes.size() > 1;
  box.name = box.several ? counted(card.nodes.size(), "node")
                         : range_text(topology, card.nodes, kMostShown);
  std::string facts = fmt::format("{}", fmt::join(card.facts, ", "));
  if (box.several) {
    box.facts.push_back(range_text(topology, card.nodes, kMostShown));
    if (!facts.empty()) facts += " each";
  }
  if (!facts.empty()) box.facts.push_back(std::move(facts));
  return boxed(box, {}, kMostCard);
}

Picture draw_site(const Topology& topology, const NetworkSite& site, int most_width,
                  bool outermost);

std::vector<Hung> children_of(const Topology& topology, const NetworkSite& site, int most_width) {
  std::vector<Hung> items;
  const int sites = std::max(1, static_cast<int>(site.sites.size()));
  const int columns = std::clamp(most_width / kLeastSite, 1, sites);
  for (const NetworkSite& each : site.sites) {
    const int share = (most_width - 30) / columns - 10;
    items.push_back({.drawn = draw_site(topology, each, share, false),
                     .label = each.cables,
                     .above = !each.cables.empty()});
  }
  int widest = 0;
  for (const Card& card : site.cards) {
    items.push_back(
        {.drawn = draw_card(topology, card), .label = card.cables, .above = !card.cables.empty()});
    widest = std::max(widest, items.back().drawn.width);
  }
  for (size_t i = site.sites.size(); i < items.size(); ++i)
    stretch(items[i].drawn, widest, items[i].drawn.height);
  if (site.left_out > 0) {
    const HeadedBox more{.colours = {"#ffffff", "#999999"},
                         .name = counted(site.left_out, "more node"),
                         .dashed = true};
    items.push_back({.drawn = boxed(more, {}, kMostCard), .above = false});
  }
  return items;
}

Picture draw_site(const Topology& topology, const NetworkSite& site, int most_width,
                  bool outermost) {
  const std::string_view colour = colour_of(EdgeKind::kNetwork);
  const int room = most_width - 2 * (kPadding + kSecondBorder);
  const Lines lines{.above = colour, .wide = true};
  std::vector<Hung> items = children_of(topology, site, room);
  const bool described = !site.tiers.empty();
  // Nodes of which no cable is known hang from what is not described.
  if (!described && outermost)
    for (Hung& item : items) item.above = true;
  const Picture below = hang(std::move(items), lines, room);
  const int width = std::min(room, std::max(below.width, 260));
  Picture content{.width = width};
  const auto append = [&](const Picture& part) {
    place(content, part, 0, content.height);
    content.width = std::max(content.width, part.width);
    content.height += part.height;
  };
  for (size_t i = 0; i < site.tiers.size(); ++i) {
    const Tier& tier = site.tiers[i];
    HeadedBox bar{.colours = colours_of(VertexKind::kSwitch),
                  .name = tier_text(tier),
                  .facts = {range_text(topology, tier.switches, kMostShown)},
                  .least_width = width};
    if (!tier.among.empty()) bar.facts.push_back(tier.among + " among them");
    append(boxed(bar, {}, width));
    if (i + 1 == site.tiers.size()) continue;
    if (!tier.cables.empty()) {
      const int x = width / 2;
      content.lines.push_back({.points = {{x, content.height}, {x, content.height + kBetween}},
                               .colour = colour,
                               .width = 2});
      content.texts.push_back({.x = x + 6,
                               .y = content.height + 16,
                               .words = tier.cables,
                               .size = kSmallSize,
                               .colour = "#444444"});
    }
    content.height += kBetween;
  }
  if (!described && outermost)
    append(boxed({.colours = {"#ffffff", colour},
                  .name = "network: nothing is known of it",
                  .dashed = true,
                  .least_width = width},
                 {}, width));
  append(below);
  const std::string nodes = counted(site.nodes, "node");
  const HeadedBox box{.colours = {outermost ? "#ffffff" : "#f5f8fb", "#8aa4bd"},
                      .name = outermost         ? "cluster of " + nodes
                              : site.copies > 1 ? fmt::format("{} x {}", site.copies, nodes)
                                                : nodes,
                      .several = site.copies > 1};
  return boxed(box, content, most_width);
}

}  // namespace

Picture draw_network(const Topology& topology, const NetworkSite& site, int most_width) {
  return draw_site(topology, site, most_width, true);
}

}  // namespace banyan
