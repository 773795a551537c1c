'use strict';

// What the server wrote into the page, decoded. Times are nanoseconds since the first event.

const KINDS = ['step', 'phase', 'kernel', 'copy', 'annotation', 'operation', 'call'];
const PHASE = 1, KERNEL = 2, OPERATION = 5;
const TENSOR_CORE = 1, WAITS = 2, LAUNCHES = 4;

// Numbers in LEB128, in base64.
class Column {
  constructor(id) {
    const text = atob(document.getElementById(id).textContent.trim());
    this.bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; ++i) this.bytes[i] = text.charCodeAt(i);
    this.at = 0;
  }
  get done() { return this.at >= this.bytes.length; }
  next() {
    let value = 0;
    for (let scale = 1;; scale *= 128) {
      const byte = this.bytes[this.at++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  }
}

// What fits on a slice: a kernel's function without its namespaces, types and arguments.
function shortName(text, kind) {
  if (kind === OPERATION) return text.replace(/^aten::/, '');
  if (kind !== KERNEL || text.length > 2000) return text;
  let plain = '', depth = 0;
  for (const letter of text.replace(/^void /, '').replace(/\(anonymous namespace\)::/g, '')) {
    if (letter === '(') break;
    if (letter === '<') ++depth;
    if (!depth) plain += letter;
    if (letter === '>') --depth;
  }
  return plain.split('::').pop().trim() || text;
}

function unzigzag(value) { return value % 2 ? -(value + 1) / 2 : value / 2; }

// The slices of all rows, one after another: rows[i] holds those from `begin` to `end`.
function decodeTimeline(json, texts) {
  const count = json.slices;
  const timeline = {
    span: Math.max(1, json.span_ns), window: json.window || null, count, events: json.events,
    start: new Float64Array(count), duration: new Float64Array(count), name: new Uint32Array(count),
    launch: new Int32Array(count).fill(-1), merged: new Map(), rows: [], tracks: [],
    names: json.names.map(([text, kind, category, label, flags]) => ({
      text: texts[text], kind, category: texts[category], label: texts[label] || texts[text],
      flags, short: shortName(texts[text], kind), lower: null, count: 0, time: 0,
    })),
  };
  const gaps = new Column('gaps'), durations = new Column('durations'), names = new Column('names');
  const launches = new Column('launches'), merged = new Column('merged');
  let index = 0, launch = 0;
  for (const track of json.tracks) {
    const made = { kind: track.kind, name: texts[track.name], detail: texts[track.detail], process: track.process,
      rows: [] };
    for (const size of track.rows) {
      const row = { track: timeline.tracks.length, depth: made.rows.length, begin: index, end: index + size };
      let at = 0;
      for (; index < row.end; ++index) {
        at += gaps.next();
        timeline.start[index] = at;
        at += timeline.duration[index] = durations.next();
        timeline.name[index] = names.next();
        if (track.kind !== 'stream') continue;
        const code = launches.next();
        if (code > 0) timeline.launch[index] = launch += unzigzag(code - 1);
      }
      made.rows.push(timeline.rows.length);
      timeline.rows.push(row);
    }
    timeline.tracks.push(made);
  }
  for (let i = -1; !merged.done;) {
    i += merged.next();
    timeline.merged.set(i, { events: merged.next(), busy: merged.next() });
  }
  for (let i = 0; i < count; ++i) {
    const name = timeline.names[timeline.name[i]];
    name.count += timeline.merged.size ? eventsIn(timeline, i) : 1;
    name.time += timeline.merged.size ? busyOf(timeline, i) : timeline.duration[i];
  }
  return timeline;
}

function eventsIn(timeline, slice) { return timeline.merged.get(slice)?.events ?? 1; }
function busyOf(timeline, slice) { return timeline.merged.get(slice)?.busy ?? timeline.duration[slice]; }

// The first slice of `row` that ends after `time`, or row.end.
function firstEndingAfter(timeline, row, time) {
  let low = row.begin, high = row.end;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (timeline.start[middle] + timeline.duration[middle] > time) high = middle; else low = middle + 1;
  }
  return low;
}

// The first slice from `low` on that starts at `time` or later, or `high`.
function firstStartingAt(timeline, low, high, time) {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (timeline.start[middle] >= time) high = middle; else low = middle + 1;
  }
  return low;
}

// The row that holds a slice.
function rowOf(timeline, slice) {
  let low = 0, high = timeline.rows.length - 1;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (timeline.rows[middle].end > slice) high = middle; else low = middle + 1;
  }
  return timeline.rows[low];
}

// The slice around `time` of the process's track of this kind, or -1.
function sliceAt(timeline, kind, process, time) {
  const track = timeline.tracks.find((candidate) => candidate.kind === kind && candidate.process === process);
  if (!track) return -1;
  const row = timeline.rows[track.rows[0]];
  const slice = firstEndingAfter(timeline, row, time);
  return slice < row.end && timeline.start[slice] <= time ? slice : -1;
}

function readPage() {
  const data = JSON.parse(document.getElementById('data').textContent);
  data.timeline = data.timeline && decodeTimeline(data.timeline, data.texts);
  return data;
}
