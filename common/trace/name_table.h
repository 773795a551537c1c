// Names of events, interned by the text that stands in the file. Each distinct text is decoded
// once, when it is first seen: decoding every occurrence would halve the reader's speed.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "common/trace/recorded_trace.h"

namespace libreyolo::trace {

// A JSON string's inside as readable text.
//
// An illegal escape (exporters have written Windows paths unescaped) makes the whole text literal,
// since then its legal-looking escapes are not meant either. Escaped control characters stay as
// they are written ("\n" remains two characters): they mean nothing in a name and would reach a
// terminal.
struct DecodedName {
  std::string text;
  bool illegal_escape = false;
  bool control_escape = false;
};
DecodedName DecodeName(absl::string_view raw);

// What a name says about its event.
enum class NameKind : uint8_t {
  kPlain,
  kStepMarker,  // "ProfilerStep..."
  kAnnotation,  // named spans that the format of 2021 writes as operations
};
NameKind KindOfName(absl::string_view name);

class NameTable {
 public:
  struct Info {
    NameKind kind = NameKind::kPlain;
    bool illegal_escape = false;
  };

  // The id of the name that is written `raw` (without quotes) in the file.
  NameId Intern(absl::string_view raw) {
    // Most events repeat a name that was seen shortly before. Its ends and length choose a slot;
    // hashing all of it would take as long as reading the event's times.
    Slot& slot = recent_[SlotOf(raw)];
    if (slot.raw == raw && slot.used) return slot.id;
    const auto it = ids_.find(raw);
    const NameId id = it != ids_.end() ? it->second : Add(raw);
    slot = {raw_[id], id, true};
    return id;
  }

  const Info& info(NameId id) const { return infos_[id]; }
  const std::vector<std::string>& names() const { return names_; }
  const std::string& raw(NameId id) const { return raw_[id]; }
  std::vector<std::string> TakeNames() { return std::move(names_); }
  int64_t control_escapes() const { return control_escapes_; }
  // About the memory that the names take.
  size_t bytes() const { return bytes_; }

 private:
  struct Slot {
    absl::string_view raw;  // points into `raw_`
    NameId id = 0;
    bool used = false;
  };
  static constexpr size_t kSlots = 1024;

  static size_t SlotOf(absl::string_view raw) {
    uint64_t head = 0;
    uint64_t tail = 0;
    const size_t size = raw.size() < 8 ? raw.size() : 8;
    std::memcpy(&head, raw.data(), size);
    std::memcpy(&tail, raw.data() + raw.size() - size, size);
    const uint64_t mixed = (head ^ (tail << 7) ^ (tail >> 9) ^ raw.size()) * 0x9E3779B97F4A7C15u;
    return static_cast<size_t>(mixed >> 54);
  }
  NameId Add(absl::string_view raw);

  absl::flat_hash_map<absl::string_view, NameId> ids_;  // keys point into `raw_`
  std::deque<std::string> raw_;                         // by id
  std::array<Slot, kSlots> recent_;
  std::vector<std::string> names_;
  std::vector<Info> infos_;
  int64_t control_escapes_ = 0;
  size_t bytes_ = 0;
};

}  // namespace libreyolo::trace
