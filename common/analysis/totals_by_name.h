// Totals of each name that occurs, for names that are dense ids. Internal to the trace's figures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/trace/recorded_trace.h"

namespace libreyolo::analysis {

// A table finds the row; a trace with very many names gets a hash map in its place. `Totals` has a
// member `name`. One thread at a time.
template <typename Totals>
class TotalsByName {
 public:
  explicit TotalsByName(size_t name_count = 0) : name_count_(name_count) {}

  Totals& operator[](trace::NameId name) {
    if (name_count_ > kMaxTable) return rows_[Place(sparse_.emplace(name, 0).first->second, name)];
    if (table_.empty()) table_.resize(name_count_);
    return rows_[Place(table_[name], name)];
  }
  std::vector<Totals>& rows() { return rows_; }

 private:
  static constexpr size_t kMaxTable = 1 << 16;

  // `slot` holds the row's index plus 1, or 0 before there is one.
  size_t Place(uint32_t& slot, trace::NameId name) {
    if (slot == 0) {
      rows_.emplace_back();
      rows_.back().name = name;
      slot = static_cast<uint32_t>(rows_.size());
    }
    return slot - 1;
  }

  size_t name_count_;
  std::vector<uint32_t> table_;
  absl::flat_hash_map<trace::NameId, uint32_t> sparse_;
  std::vector<Totals> rows_;
};

}  // namespace libreyolo::analysis
