// SPDX-License-Identifier: Apache-2.0

#include "algorithms/cost/cost_layers.h"

namespace banyan {
namespace {

std::vector<int> telling_levels(const Site& site) {
  std::vector<int> kept;
  int parts_below = site.ranks();
  for (int level = 0; level < site.depth(); ++level) {
    const int parts = site.levels().parts(level);
    if (parts > 1 && parts < parts_below) kept.push_back(level);
    parts_below = parts;
  }
  if (kept.empty()) kept.push_back(0);
  return kept;
}

}  // namespace

std::vector<Layer> layers_of(const Site& site) {
  const std::vector<int> levels = telling_levels(site);
  std::vector<Layer> layers;
  double below = 1;
  for (size_t index = 0; index <= levels.size(); ++index) {
    const bool top = index == levels.size();
    const int crossed = top ? levels.back() : levels[index] - 1;
    Layer layer{.team = {}, .reach = {}, .below = below};
    if (crossed >= 0) {
      layer.team = {.where = CostTeam::Where::kAcross, .level = crossed};
      layer.reach = site.across(crossed);
    } else {
      layer.team.where = CostTeam::Where::kInside;
    }
    layer.team.count = top ? 1 : site.levels().parts(levels[index]);
    if (top)
      layer.team.size = site.levels().parts(levels.back());
    else
      layer.team.size = index == 0 ? site.levels().largest_part(levels.front())
                                   : site.parts_within(levels[index - 1], levels[index]);
    below *= layer.team.size;
    layers.push_back(layer);
  }
  return layers;
}

}  // namespace banyan
