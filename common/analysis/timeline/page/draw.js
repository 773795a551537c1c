// Draws a View on a canvas. A row costs at most one rectangle a pixel, however many slices it holds.

const KERNEL_COLOURS = {
  'gemm / conv': 'gemm', attention: 'attention', 'reduction / norm': 'reduction', elementwise: 'elementwise',
  'layout / copy': 'layout', 'optimizer / foreach': 'optimizer', communication: 'communication',
};

function hashOf(text) {
  let hash = 2166136261;
  for (let i = 0; i < text.length; ++i) hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
  return hash >>> 0;
}

// The style sheet's name for the colour of a name. Phases differ from each other whatever they are called.
function colourName(name, phaseIndex) {
  switch (KINDS[name.kind]) {
    case 'phase': return 'phase' + phaseIndex % 7;
    case 'kernel': return KERNEL_COLOURS[name.category] || 'other';
    case 'copy': return 'copy';
    case 'call': return name.flags & WAITS ? 'wait' : 'call';
    case 'step': return 'step';
    case 'annotation': return 'annotation';
    default: return 'op' + hashOf(name.text) % 8;
  }
}

class Painter {
  constructor(canvas, view) {
    this.canvas = canvas;
    this.view = view;
    this.context = canvas.getContext('2d');
    let phases = 0;
    this.colourNames = view.timeline.names.map((name) => colourName(name, name.kind === PHASE ? phases++ : 0));
    this.readColours();
    this.overview = null;
  }

  readColours() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue('--' + name).trim();
    this.theme = Object.fromEntries(['back', 'surface', 'line', 'text', 'quiet', 'accent', 'accent-soft', 'lane',
      'dim', 'shade', 'grid', 'slice-text', 'bad', 'gemm', 'op0'].map((name) => [name, colour(name)]));
    this.colours = this.colourNames.map(colour);
    this.overview = null;
  }

  resize() {
    const box = this.canvas.getBoundingClientRect();
    const ratio = window.devicePixelRatio || 1;
    this.view.width = box.width;
    this.view.height = box.height;
    this.canvas.width = Math.round(box.width * ratio);
    this.canvas.height = Math.round(box.height * ratio);
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.overview = null;
    this.view.clampScroll();
  }

  draw() {
    const { context, view, theme } = this;
    this.font = '11px ' + getComputedStyle(document.body).fontFamily;
    context.font = this.font;
    context.textBaseline = 'middle';
    context.fillStyle = theme.back;
    context.fillRect(0, 0, view.width, view.height);
    context.save();
    context.beginPath();
    context.rect(0, view.top, view.width, Math.max(0, view.height - view.top));
    context.clip();
    this.drawPlaces(false);
    context.restore();
    context.fillStyle = theme.back;
    context.fillRect(0, 0, view.width, view.top);
    this.drawOverview();
    this.drawPlaces(true);
    context.fillStyle = theme.line;
    context.fillRect(0, view.top - 1, view.width, 1);
    this.drawAxis();
    this.drawShade();
    this.drawChosen();
    this.drawScrollbar();
  }

  drawPlaces(pinned) {
    const { context, view, theme } = this;
    context.fillStyle = theme.line;
    context.fillRect(GUTTER - 1, pinned ? OVERVIEW : view.top, 1, pinned ? view.top - OVERVIEW : view.height);
    for (const place of view.places) {
      if (place.pinned !== pinned) continue;
      const y = view.yOf(place);
      if (!pinned && (y > view.height || y + place.height < view.top)) {
        // Its header may still be in sight.
        if (!place.header || view.top + place.headerY - view.scroll > view.height) continue;
      }
      if (place.header) this.drawHeader(place);
      context.fillStyle = theme.lane;
      context.fillRect(GUTTER, y, view.plotWidth, place.height);
      this.drawRows(place, y);
      this.drawLabel(place, y);
    }
  }

  drawHeader(place) {
    const { context, view, theme } = this;
    const y = view.top + place.headerY - view.scroll;
    context.fillStyle = theme.surface;
    context.fillRect(0, y, view.width, HEADER - 3);
    context.fillStyle = theme.text;
    context.font = '600 ' + this.font;
    context.fillText(place.header, 8, y + (HEADER - 3) / 2);
    context.font = this.font;
  }

  drawLabel(place, y) {
    const { context, view, theme } = this;
    const track = view.timeline.tracks[place.track];
    const foldable = track.rows.length > 1;
    context.save();
    context.beginPath();
    context.rect(0, y, GUTTER - 6, place.height);
    context.clip();
    context.fillStyle = theme.quiet;
    if (foldable) context.fillText(view.folded.has(place.track) ? '\u25b8' : '\u25be', 7, y + ROW / 2);
    context.fillStyle = theme.text;
    context.fillText(track.name, 20, y + ROW / 2);
    if (track.kind === 'thread' && place.rows > 1) {
      context.fillStyle = theme.quiet;
      context.fillText(track.detail, 20, y + ROW * 1.5);
    }
    context.restore();
  }

  drawRows(place, y) {
    const { view } = this;
    const track = view.timeline.tracks[place.track];
    for (let depth = 0; depth < place.rows; ++depth) {
      const top = y + depth * ROW;
      if (top > view.height || (!place.pinned && top + ROW < view.top)) continue;
      this.drawRow(view.timeline.rows[track.rows[depth]], top);
    }
  }

  drawRow(row, y) {
    const { context, view, colours, theme } = this;
    const { start, duration, name } = view.timeline;
    const { from, to, scale, matching } = view;
    const right = view.width;
    let used = '';
    const height = ROW - 1;
    for (let i = firstEndingAfter(view.timeline, row, from); i < row.end && start[i] < to;) {
      const x = GUTTER + (start[i] - from) * scale;
      const width = duration[i] * scale;
      if (width < 1) {
        // All that starts in this pixel is one mark; only the last of it can be longer.
        const pixel = Math.floor(x);
        const next = firstStartingAt(view.timeline, i + 1, row.end, from + (pixel + 1 - GUTTER) / scale);
        let shown = i;
        if (matching) for (let j = i; j < next && !matching[name[shown]]; ++j) if (matching[name[j]]) shown = j;
        const colour = matching && !matching[name[shown]] ? theme.dim : colours[name[shown]];
        if (colour !== used) context.fillStyle = used = colour;
        if (pixel >= GUTTER - 1) context.fillRect(Math.max(GUTTER, pixel), y, 1, height);
        const last = next - 1;
        i = last > i && duration[last] * scale >= 1 ? last : next;
        continue;
      }
      const left = Math.max(GUTTER, x);
      const shownWidth = Math.min(right, x + width) - left;
      const dimmed = matching && !matching[name[i]];
      const colour = dimmed ? theme.dim : colours[name[i]];
      if (colour !== used) context.fillStyle = used = colour;
      context.fillRect(left, y, Math.max(1, shownWidth - (width > 3 ? 0.7 : 0)), height);
      if (shownWidth > 22) {
        this.drawSliceText(i, left, y, shownWidth, dimmed);
        used = '';
      }
      ++i;
    }
  }

  drawSliceText(slice, x, y, width, dimmed) {
    const { context, view, theme } = this;
    const name = view.timeline.names[view.timeline.name[slice]];
    const events = view.timeline.merged.size ? eventsIn(view.timeline, slice) : 1;
    let text = events > 1 ? `${formatCount(events)} events, longest ${name.short}` : name.short;
    const fits = Math.floor((width - 6) / 5.6);
    if (text.length > fits) text = fits > 3 ? text.slice(0, fits - 1) + '\u2026' : '';
    if (!text) return;
    context.fillStyle = dimmed ? theme.quiet : theme['slice-text'];
    context.fillText(text, x + 3, y + ROW / 2, width - 5);
  }

  // Marks of the axis stand at 1, 2 or 5 times a power of ten.
  drawAxis() {
    const { context, view, theme } = this;
    const rough = 110 / view.scale;
    const power = 10 ** Math.floor(Math.log10(rough));
    const distance = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
    const y = OVERVIEW + AXIS / 2;
    context.fillStyle = theme.surface;
    context.fillRect(GUTTER, OVERVIEW, view.plotWidth, AXIS - 2);
    context.fillStyle = theme.quiet;
    context.fillText('time', 20, y);
    for (let time = Math.ceil(view.from / distance) * distance; time <= view.to; time += distance) {
      const x = Math.round(view.xOf(time));
      if (x < GUTTER) continue;
      context.fillStyle = theme.grid;
      context.fillRect(x, OVERVIEW, 1, view.height);
      context.fillStyle = theme.quiet;
      context.fillText(formatTick(time, distance), x + 4, y);
    }
    const track = view.timeline.tracks.find((candidate) => candidate.kind === 'steps');
    if (!track) return;
    const row = view.timeline.rows[track.rows[0]];
    context.fillStyle = theme.quiet;
    context.globalAlpha = 0.35;
    for (let i = row.begin; i < row.end && row.end - row.begin < 500; ++i) {
      const x = Math.round(view.xOf(view.timeline.start[i]));
      if (x >= GUTTER && x < view.width) context.fillRect(x, view.top, 1, view.height);
    }
    context.globalAlpha = 1;
  }

  // What lies outside the analysed steps.
  drawShade() {
    const { context, view, theme } = this;
    const shade = (from, to) => {
      const left = Math.max(GUTTER, view.xOf(from)), right = Math.min(view.width, view.xOf(to));
      if (right > left) context.fillRect(left, OVERVIEW + AXIS, right - left, view.height);
    };
    context.fillStyle = theme.shade;
    if (view.timeline.window) {
      shade(-Infinity, view.timeline.window[0]);
      shade(view.timeline.window[1], Infinity);
    }
    if (view.marked) {
      const [from, to] = view.marked;
      const left = Math.max(GUTTER, view.xOf(from)), right = Math.min(view.width, view.xOf(to));
      context.globalAlpha = 0.18;
      context.fillStyle = theme.accent;
      if (right > left) context.fillRect(left, OVERVIEW, right - left, view.height);
      context.globalAlpha = 1;
    }
  }

  boxOf(slice) {
    const { view } = this;
    const row = rowOf(view.timeline, slice);
    const place = view.places[row.track];
    const x = view.xOf(view.timeline.start[slice]);
    return {
      x, y: view.yOf(place) + Math.min(row.depth, place.rows - 1) * ROW,
      width: Math.max(2, view.timeline.duration[slice] * view.scale), shown: row.depth < place.rows, pinned: place.pinned,
    };
  }

  drawChosen() {
    const { context, view, theme } = this;
    context.save();
    context.beginPath();
    context.rect(GUTTER, OVERVIEW + AXIS, view.plotWidth, view.height);
    context.clip();
    for (const [slice, colour, width] of [[view.hovered, theme.text, 1], [view.selected, theme.accent, 2]]) {
      if (slice < 0) continue;
      const box = this.boxOf(slice);
      if (!box.shown || (!box.pinned && (box.y + ROW < view.top))) continue;
      context.strokeStyle = colour;
      context.lineWidth = width;
      const left = Math.max(GUTTER - 4, box.x), right = Math.min(view.width + 4, box.x + box.width);
      if (right > left) context.strokeRect(left + 0.5, box.y + 0.5, right - left - 1, ROW - 2);
    }
    if (view.selected >= 0) this.drawArrows();
    context.restore();
  }

  // From a launch to what it started.
  drawArrows() {
    const { context, view, theme } = this;
    const timeline = view.timeline;
    const pairs = [];
    if (timeline.launch[view.selected] >= 0) {
      pairs.push([timeline.launch[view.selected], view.selected]);
    } else if (timeline.names[timeline.name[view.selected]].flags & LAUNCHES) {
      for (const kernel of launchedBy(timeline, view.selected).slice(0, 200)) pairs.push([view.selected, kernel]);
    }
    context.beginPath();
    context.rect(GUTTER, view.top, view.plotWidth, view.height);
    context.clip();
    context.strokeStyle = theme.accent;
    context.lineWidth = 1.4;
    for (const [launch, kernel] of pairs) {
      const a = this.boxOf(launch), b = this.boxOf(kernel);
      const bend = Math.max(20, Math.abs(b.x - a.x) / 3);
      context.beginPath();
      context.moveTo(a.x, a.y + ROW / 2);
      context.bezierCurveTo(a.x + bend, a.y + ROW / 2, b.x - bend, b.y + ROW / 2, b.x, b.y + ROW / 2);
      context.stroke();
    }
  }

  // The whole trace, how busy: streams if there are any, else threads.
  drawOverview() {
    const { context, view, theme } = this;
    context.fillStyle = theme.surface;
    context.fillRect(0, 0, view.width, OVERVIEW);
    const share = (this.overview ||= this.measureOverview());
    context.fillStyle = theme[share.kind === 'stream' ? 'gemm' : 'op0'];
    for (let x = 0; x < share.busy.length; ++x) {
      const height = share.busy[x] * (OVERVIEW - 8);
      if (height > 0) context.fillRect(GUTTER + x, OVERVIEW - 3 - height, 1, height);
    }
    context.fillStyle = theme.quiet;
    context.fillText(share.kind === 'stream' ? 'GPU, whole trace' : 'host, whole trace', 20, OVERVIEW / 2);
    const span = view.timeline.span;
    const left = GUTTER + Math.max(0, view.from / span) * view.plotWidth;
    const right = GUTTER + Math.min(1, view.to / span) * view.plotWidth;
    context.fillStyle = theme.shade;
    context.fillRect(GUTTER, 0, Math.max(0, left - GUTTER), OVERVIEW);
    context.fillRect(right, 0, Math.max(0, view.width - right), OVERVIEW);
    context.strokeStyle = theme.accent;
    context.lineWidth = 1;
    context.strokeRect(left + 0.5, 0.5, Math.max(2, right - left - 1), OVERVIEW - 1);
  }

  measureOverview() {
    const { view } = this;
    const timeline = view.timeline;
    const kind = timeline.tracks.some((track) => track.kind === 'stream') ? 'stream' : 'thread';
    const bins = Math.max(1, Math.floor(view.plotWidth));
    const busy = new Float32Array(bins);
    const perBin = timeline.span / bins;
    for (const track of timeline.tracks) {
      if (track.kind !== kind) continue;
      const row = timeline.rows[track.rows[0]];
      const own = new Float32Array(bins);
      for (let i = row.begin; i < row.end; ++i) {
        let at = timeline.start[i];
        const end = at + timeline.duration[i];
        for (let bin = Math.min(bins - 1, Math.floor(at / perBin)); bin < bins && at < end; ++bin) {
          const until = Math.min(end, (bin + 1) * perBin);
          own[bin] += (until - at) / perBin;
          at = until;
        }
      }
      for (let bin = 0; bin < bins; ++bin) busy[bin] = Math.max(busy[bin], Math.min(1, own[bin]));
    }
    return { kind, busy };
  }

  drawScrollbar() {
    const { context, view, theme } = this;
    const room = view.height - view.top;
    if (view.contentHeight + 12 <= room) return;
    const height = Math.max(24, room * room / (view.contentHeight + 12));
    const y = view.top + view.scroll / (view.contentHeight + 12 - room) * (room - height);
    context.fillStyle = theme.quiet;
    context.globalAlpha = 0.4;
    context.fillRect(view.width - 7, y, 5, height);
    context.globalAlpha = 1;
  }
}

// What a call started, in order of the slices.
function launchedBy(timeline, call) {
  const found = [];
  for (let i = 0; i < timeline.count; ++i) if (timeline.launch[i] === call) found.push(i);
  return found;
}
