#include "common/analysis/compare_rows.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace libreyolo::analysis {
namespace {

constexpr size_t kShown = 10;
// The peer cuts names; a whole name and a cut one are the same when they agree so far.
constexpr size_t kPeerKernelName = 90;
constexpr size_t kPeerOpName = 70;

struct Sides {
  RowChange change;
  bool in_before = false;
  bool in_after = false;
};

// `key_of(row)` names a row, `ms_of(row)` is its time; rows without a time are left out.
template <typename Row, typename Key, typename Time, typename Describe>
std::vector<RowChange> Changes(const std::vector<Row>& before, const std::vector<Row>& after,
                               const Key& key_of, const Time& ms_of, const Describe& describe) {
  std::map<std::string, Sides> rows;
  const auto add = [&](const std::vector<Row>& list, bool first) {
    for (const Row& row : list) {
      const std::optional<double> ms = ms_of(row);
      if (!ms.has_value()) continue;
      Sides& sides = rows[key_of(row)];
      if (!sides.in_before && !sides.in_after) describe(row, sides.change);
      (first ? sides.change.before_ms : sides.change.after_ms) += *ms;
      (first ? sides.in_before : sides.in_after) = true;
    }
  };
  // A side that knows no time per step says nothing about what is new or gone.
  const auto knows = [&](const std::vector<Row>& list) {
    return list.empty() || std::any_of(list.begin(), list.end(),
                                       [&](const Row& row) { return ms_of(row).has_value(); });
  };
  if (before.empty() != after.empty() || !knows(before) || !knows(after)) return {};
  add(before, true);
  add(after, false);
  std::vector<RowChange> changes;
  for (auto& [key, sides] : rows) {
    if (!sides.in_before) sides.change.kind = RowChange::Kind::kNew;
    if (!sides.in_after) sides.change.kind = RowChange::Kind::kGone;
    if (sides.change.change_ms() != 0) changes.push_back(std::move(sides.change));
  }
  std::stable_sort(changes.begin(), changes.end(), [](const RowChange& a, const RowChange& b) {
    return std::abs(a.change_ms()) > std::abs(b.change_ms());
  });
  if (changes.size() > kShown) changes.resize(kShown);
  return changes;
}

}  // namespace

std::vector<RowChange> KernelChanges(const Profile& before, const Profile& after) {
  const bool cut = !before.ours || !after.ours;
  return Changes(
      before.kernels, after.kernels,
      [&](const KernelRow& row) {
        return cut ? row.raw_name.substr(0, kPeerKernelName) : row.raw_name;
      },
      [](const KernelRow& row) { return row.ms_per_step; },
      [](const KernelRow& row, RowChange& change) {
        change.name = row.raw_name;
        change.category = row.category;
      });
}

std::vector<RowChange> OpChanges(const Profile& before, const Profile& after) {
  const bool cut = !before.ours || !after.ours;
  return Changes(
      before.ops, after.ops,
      [&](const OpRow& row) { return cut ? row.op.substr(0, kPeerOpName) : row.op; },
      // With nested operations where one side knows no other figure.
      [&](const OpRow& row) { return cut ? row.ms_per_step : row.self_ms_per_step; },
      [](const OpRow& row, RowChange& change) { change.name = row.op; });
}

}  // namespace libreyolo::analysis
