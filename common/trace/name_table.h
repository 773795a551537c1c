// Names of events, interned by the text that stands in the file. Each distinct text is decoded
// once, when it is first seen: decoding every occurrence would halve the reader's speed.
#pragma once

#include <cstdint>
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
    const auto it = ids_.find(raw);
    return it != ids_.end() ? it->second : Add(raw);
  }

  const Info& info(NameId id) const { return infos_[id]; }
  const std::vector<std::string>& names() const { return names_; }
  std::vector<std::string> TakeNames() { return std::move(names_); }
  int64_t control_escapes() const { return control_escapes_; }

 private:
  NameId Add(absl::string_view raw);

  absl::flat_hash_map<absl::string_view, NameId> ids_;  // keys point into `raw_`
  std::deque<std::string> raw_;
  std::vector<std::string> names_;
  std::vector<Info> infos_;
  int64_t control_escapes_ = 0;
};

}  // namespace libreyolo::trace
