#include "common/analysis/timeline/timeline_page.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/analysis/build_profile.h"
#include "common/analysis/phases.h"
#include "common/analysis/summary.h"
#include "common/analysis/timeline/column_encoder.h"
#include "common/analysis/timeline/page_assets.h"
#include "common/base/sha256.h"
#include "common/base/status_macros.h"
#include "common/json/json_value.h"

namespace libreyolo::analysis {
namespace {

// Of one name on the page. Longer ones are cut there, visibly; no reader's output is.
constexpr size_t kMaxNameBytes = 16 << 10;

// Texts that appear often, by number.
class TextPool {
 public:
  int64_t Add(const std::string& text) {
    const auto [it, inserted] = ids_.emplace(text, static_cast<int64_t>(texts_.size()));
    if (inserted) {
      if (text.size() <= kMaxNameBytes) {
        texts_.emplace_back(text);
      } else {
        texts_.emplace_back(
            absl::StrCat(text.substr(0, kMaxNameBytes), "... (", text.size(), " bytes)"));
      }
    }
    return it->second;
  }
  JsonValue Take() { return JsonValue(std::move(texts_)); }

 private:
  absl::flat_hash_map<std::string, int64_t> ids_;
  JsonValue::Array texts_;
};

template <typename T>
JsonValue OrNull(const std::optional<T>& value) {
  return value.has_value() ? JsonValue(*value) : JsonValue();
}

JsonValue MsOrNull(const std::optional<int64_t>& value_ns) {
  return value_ns.has_value() ? JsonValue(RoundTo(static_cast<double>(*value_ns) / 1e6, 6))
                              : JsonValue();
}

JsonValue KernelRows(const std::vector<KernelRow>& rows, TextPool& texts) {
  JsonValue::Array out;
  for (const KernelRow& row : rows) {
    out.emplace_back(JsonValue::Array{
        texts.Add(row.raw_name), texts.Add(row.kernel), texts.Add(row.category), row.tensorcore,
        OrNull(row.ms_per_step), row.pct_of_gpu, OrNull(row.count_per_step), MsOrNull(row.total_ns),
        OrNull(row.total_count)});
  }
  return JsonValue(std::move(out));
}

JsonValue OpRows(const std::vector<OpRow>& rows, TextPool& texts) {
  JsonValue::Array out;
  for (const OpRow& row : rows) {
    out.emplace_back(JsonValue::Array{texts.Add(row.op), OrNull(row.self_ms_per_step),
                                      OrNull(row.ms_per_step), row.pct_of_cpu_ops,
                                      OrNull(row.count_per_step), MsOrNull(row.self_ns),
                                      MsOrNull(row.total_ns), OrNull(row.total_count)});
  }
  return JsonValue(std::move(out));
}

template <typename Row, typename ToRows>
JsonValue Groups(const std::vector<Row>& all,
                 const std::vector<std::pair<std::string, std::vector<Row>>>& by_phase,
                 const ToRows& to_rows, TextPool& texts) {
  JsonValue::Array groups;
  groups.emplace_back(JsonValue::Array{"", to_rows(all, texts)});
  for (const auto& [phase, rows] : by_phase) {
    groups.emplace_back(JsonValue::Array{phase, to_rows(rows, texts)});
  }
  return JsonValue(std::move(groups));
}

const char* Word(TrackKind kind) {
  switch (kind) {
    case TrackKind::kSteps:
      return "steps";
    case TrackKind::kPhases:
      return "phases";
    case TrackKind::kStream:
      return "stream";
    case TrackKind::kGpuAnnotations:
      return "gpu annotations";
    case TrackKind::kThread:
      return "thread";
  }
  return "";
}

struct Columns {
  ColumnEncoder gaps;  // from the end of the slice before in the row; of the first, to start_ns
  ColumnEncoder durations;
  ColumnEncoder names;
  ColumnEncoder launches;  // rows of streams: 0 for none, else 1 + the slice's zigzag distance to
                           // the one before that was launched
  ColumnEncoder merged;    // for each slice of several events: slices since, events, their time
};

void AddRow(const TimelineTrack& track, const std::vector<Slice>& row, int64_t origin_ns,
            uint32_t& since_merged, int64_t& last_launch, Columns& columns) {
  int64_t end_ns = origin_ns;
  for (const Slice& slice : row) {
    columns.gaps.Add(static_cast<uint64_t>(slice.start_ns - end_ns));
    columns.durations.Add(static_cast<uint64_t>(slice.duration_ns));
    columns.names.Add(slice.name);
    end_ns = slice.start_ns + slice.duration_ns;
    if (track.kind == TrackKind::kStream) {
      if (slice.launch == kNoSlice) {
        columns.launches.Add(0);
      } else {
        const int64_t distance = static_cast<int64_t>(slice.launch) - last_launch;
        columns.launches.Add(
            1 + ((static_cast<uint64_t>(distance) << 1) ^ static_cast<uint64_t>(distance >> 63)));
        last_launch = slice.launch;
      }
    }
    ++since_merged;
    if (slice.event_count > 1) {
      columns.merged.Add(since_merged);
      columns.merged.Add(slice.event_count);
      columns.merged.Add(static_cast<uint64_t>(slice.busy_ns));
      since_merged = 0;
    }
  }
}

JsonValue TracksToJson(const Timeline& timeline, TextPool& texts, Columns& columns) {
  JsonValue::Array tracks;
  uint32_t since_merged = 0;
  int64_t last_launch = 0;
  for (const TimelineTrack& track : timeline.tracks) {
    JsonValue::Array rows;
    for (const std::vector<Slice>& row : track.rows) {
      rows.emplace_back(static_cast<int64_t>(row.size()));
      AddRow(track, row, timeline.start_ns, since_merged, last_launch, columns);
    }
    JsonValue& json = tracks.emplace_back(JsonValue::Object{});
    json.Set("kind", Word(track.kind));
    json.Set("name", texts.Add(track.name));
    json.Set("detail", texts.Add(track.detail));
    json.Set("process", static_cast<int64_t>(track.process));
    json.Set("rows", JsonValue(std::move(rows)));
  }
  return JsonValue(std::move(tracks));
}

JsonValue TimelineToJson(const Timeline& timeline, const std::optional<TraceFigures>& figures,
                         TextPool& texts, Columns& columns) {
  JsonValue json{JsonValue::Object{}};
  json.Set("span_ns", timeline.end_ns - timeline.start_ns);
  if (figures.has_value() && figures->window_end_ns > figures->window_start_ns) {
    json.Set("window", JsonValue(JsonValue::Array{figures->window_start_ns - timeline.start_ns,
                                                  figures->window_end_ns - timeline.start_ns}));
    json.Set("window_steps", figures->steps);
  }
  json.Set("events", timeline.event_count);
  json.Set("slices", timeline.slice_count);
  json.Set("merged", timeline.merged_count);
  json.Set("merge_ns", timeline.merge_ns);
  JsonValue::Array names;
  for (const TimelineName& name : timeline.names) {
    const int flags = (name.tensorcore ? 1 : 0) | (name.waits ? 2 : 0) | (name.launches ? 4 : 0);
    names.emplace_back(JsonValue::Array{texts.Add(name.text), static_cast<int>(name.kind),
                                        texts.Add(name.category), texts.Add(name.label), flags});
  }
  json.Set("names", JsonValue(std::move(names)));
  json.Set("tracks", TracksToJson(timeline, texts, columns));
  return json;
}

void AddNotes(const Timeline& timeline, const trace::RecordedTrace& trace,
              std::vector<std::string>& notes) {
  if (timeline.merged_count > 0) {
    notes.push_back(absl::StrCat(
        timeline.merged_count, " of ", timeline.event_count, " events are drawn in groups: ",
        "neighbours in a row that are shorter than ", static_cast<double>(timeline.merge_ns) / 1000,
        " us share a slice, which counts them; the tables know each one"));
  }
  if (timeline.untimed_count > 0) {
    notes.push_back(absl::StrCat(timeline.untimed_count,
                                 " kernels or copies have no time in the trace and are not drawn"));
  }
  if (timeline.too_deep_count > 0) {
    notes.push_back(absl::StrCat(timeline.too_deep_count, " events are nested deeper than ",
                                 TimelineOptions::kMaxRows, " levels and are not drawn"));
  }
  if (trace.counts.other_events > 0) {
    notes.push_back(absl::StrCat(trace.counts.other_events,
                                 " events of kinds that are not analysed (flows, instants, Python "
                                 "frames and such) are not drawn"));
  }
}

// JSON inside <script>: nothing in it may look like markup.
std::string ForScript(std::string json) { return absl::StrReplaceAll(json, {{"<", "\\u003c"}}); }

std::string PolicyHash(absl::string_view text) {
  return absl::StrCat("'sha256-", absl::Base64Escape(absl::HexStringToBytes(Sha256Hex(text))), "'");
}

// Fills the skeleton's {{marks}}. Each stands once, and what is put in is not looked at again.
std::string FillSkeleton(const std::vector<std::pair<absl::string_view, std::string>>& parts) {
  std::string page;
  absl::string_view rest = kTimelineHtml;
  for (const auto& [mark, text] : parts) {
    const size_t at = rest.find(mark);
    page.append(rest.data(), at);
    page.append(text);
    rest.remove_prefix(at + mark.size());
  }
  page.append(rest.data(), rest.size());
  return page;
}

}  // namespace

absl::StatusOr<TimelinePage> RenderTimelinePage(const TimelinePageInput& input) {
  TimelinePage page;
  page.notes = input.notes;
  TextPool texts;
  Columns columns;
  JsonValue data{JsonValue::Object{}};
  data.Set("version", 1);
  data.Set("shown_name", input.shown_name);
  data.Set("summary", ToJson(Summarize(input.profile)));
  data.Set("phases", *ToJson(ReportPhases(input.profile)).Find("phases"));
  data.Set("kernels",
           Groups(input.profile.kernels, input.profile.kernels_by_phase, KernelRows, texts));
  data.Set("ops", Groups(input.profile.ops, input.profile.ops_by_phase, OpRows, texts));
  if (input.trace != nullptr) {
    const Timeline timeline = LayOutTimeline(*input.trace, input.options);
    page.event_count = timeline.event_count;
    page.slice_count = timeline.slice_count;
    page.merged_count = timeline.merged_count;
    AddNotes(timeline, *input.trace, page.notes);
    std::optional<TraceFigures> figures;
    if (input.profile.ours) {  // others' profiles are of a window of their own
      LY_ASSIGN_OR_RETURN(const std::optional<job::Measurement> own, MeasurementOf(*input.trace));
      LY_ASSIGN_OR_RETURN(figures, ComputeFigures(*input.trace, {input.window, own.has_value()}));
    }
    data.Set("timeline", TimelineToJson(timeline, figures, texts, columns));
  } else {
    data.Set("timeline", JsonValue());
  }
  data.Set("notes", JsonValue(JsonValue::Array(page.notes.begin(), page.notes.end())));
  data.Set("texts", texts.Take());
  const std::string policy =
      absl::StrCat("default-src 'none'; script-src ", PolicyHash(kTimelineScript), "; style-src ",
                   PolicyHash(kTimelineStyle));
  page.html = FillSkeleton({{"{{policy}}", policy},
                            {"{{style}}", std::string(kTimelineStyle)},
                            {"{{data}}", ForScript(data.ToCompact())},
                            {"{{gaps}}", columns.gaps.ToBase64()},
                            {"{{durations}}", columns.durations.ToBase64()},
                            {"{{names}}", columns.names.ToBase64()},
                            {"{{launches}}", columns.launches.ToBase64()},
                            {"{{merged}}", columns.merged.ToBase64()},
                            {"{{script}}", std::string(kTimelineScript)}});
  return page;
}

}  // namespace libreyolo::analysis
