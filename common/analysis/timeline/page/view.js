// What the timeline shows at the moment: the stretch of time, the lanes' places, what is chosen. Knows no canvas.

const GUTTER = 196, OVERVIEW = 34, AXIS = 22, ROW = 17, TRACK_GAP = 7, HEADER = 20;
const SHORTEST_RANGE = 20;  // nanoseconds

class View {
  constructor(timeline, onChange) {
    this.timeline = timeline;
    this.onChange = onChange;
    this.width = 800;   // of the canvas, CSS pixels
    this.height = 400;
    this.scroll = 0;
    this.folded = new Set();    // tracks
    this.selected = -1;
    this.hovered = -1;
    this.marked = null;         // [from, to] of Shift+drag
    this.matching = null;       // by name: Uint8Array, or null without a search
    this.from = 0;
    this.to = timeline.span;
    for (const [index, track] of timeline.tracks.entries()) {
      if (track.kind === 'gpu annotations') this.folded.add(index);
    }
    this.placeTracks();
  }

  // Tracks that stay at the top come first: steps and phases of the main process. The others scroll below them.
  placeTracks() {
    this.places = [];
    let pinned = OVERVIEW + AXIS, y = 0, group = '';
    for (const [index, track] of this.timeline.tracks.entries()) {
      const rows = this.folded.has(index) ? 1 : track.rows.length;
      const place = { track: index, rows, height: rows * ROW, header: '', pinned: false };
      const ofProcess = track.kind === 'steps' || track.kind === 'phases';
      if (ofProcess && track.process === this.timeline.tracks[0].process) {
        place.pinned = true;
        place.y = pinned;
        pinned += place.height + 3;
      } else {
        const title = ofProcess ? 'Other processes' : track.kind === 'thread' ? 'Host'
          : track.kind === 'stream' ? track.detail : group;
        if (title !== group) {
          group = place.header = title;
          place.headerY = y + 4;
          y += HEADER + 4;
        }
        place.y = y;
        y += place.height + TRACK_GAP;
      }
      this.places.push(place);
    }
    this.top = pinned + 4;
    this.contentHeight = y;
    this.clampScroll();
  }

  clampScroll() {
    this.scroll = Math.max(0, Math.min(this.scroll, this.contentHeight + 12 - (this.height - this.top)));
  }

  // On the canvas.
  yOf(place) { return place.pinned ? place.y : place.y - this.scroll + this.top; }
  get plotWidth() { return Math.max(50, this.width - GUTTER); }
  get scale() { return this.plotWidth / (this.to - this.from); }
  xOf(time) { return GUTTER + (time - this.from) * this.scale; }
  timeAt(x) { return this.from + (x - GUTTER) / this.scale; }

  placeAt(y) {
    return this.places.find((place) => {
      const top = this.yOf(place);
      return (place.pinned || y >= this.top) && y >= top && y < top + place.height;
    });
  }

  // The slice at a point, with a pixel of grace beside short ones; -1 where there is none.
  sliceAtPoint(x, y) {
    const place = x >= GUTTER ? this.placeAt(y) : undefined;
    if (!place) return -1;
    const timeline = this.timeline;
    const row = timeline.rows[timeline.tracks[place.track].rows[Math.floor((y - this.yOf(place)) / ROW)]];
    const grace = 1.5 / this.scale;
    const slice = firstEndingAfter(timeline, row, this.timeAt(x) - grace);
    if (slice < row.end && timeline.start[slice] <= this.timeAt(x) + grace) return slice;
    const before = slice - 1;  // one without a duration
    return before >= row.begin && timeline.start[before] >= this.timeAt(x) - grace ? before : -1;
  }

  show(from, to) {
    const span = this.timeline.span;
    const length = Math.max(SHORTEST_RANGE, Math.min(to - from, span * 1.1));
    const margin = span * 0.05;
    this.from = Math.max(-margin, Math.min(from, span + margin - length));
    this.to = this.from + length;
    this.onChange();
  }
  zoom(factor, around = (this.from + this.to) / 2) {
    const length = Math.max(SHORTEST_RANGE, Math.min((this.to - this.from) * factor, this.timeline.span * 1.1));
    const share = (around - this.from) / (this.to - this.from);
    this.show(around - share * length, around - share * length + length);
  }
  move(time) { this.show(this.from + time, this.to + time); }
  scrollBy(pixels) {
    this.scroll += pixels;
    this.clampScroll();
    this.onChange();
  }
  showAll() { this.show(0, this.timeline.span); }
  showWindow() {
    const window = this.timeline.window;
    if (!window) return this.showAll();
    const margin = (window[1] - window[0]) * 0.02;
    this.show(window[0] - margin, window[1] + margin);
  }

  toggleFold(track) {
    if (!this.folded.delete(track)) this.folded.add(track);
    this.placeTracks();
    this.onChange();
  }

  // Brings a slice into sight; with `fill` it takes up much of the width.
  reveal(slice, fill = false) {
    const timeline = this.timeline, start = timeline.start[slice];
    const length = Math.max(timeline.duration[slice], SHORTEST_RANGE);
    const shown = this.to - this.from;
    if (fill) {
      this.show(start - length * 0.4, start + length * 1.4);
    } else if (start < this.from || start + length > this.to || length * this.scale < 3) {
      const range = Math.max(length * 3, Math.min(shown, length * 400));
      this.show(start + length / 2 - range / 2, start + length / 2 + range / 2);
    }
    const row = rowOf(timeline, slice);
    const place = this.places[row.track];
    if (row.depth >= place.rows) this.toggleFold(row.track);
    if (!place.pinned) {
      const y = place.y + row.depth * ROW;
      const room = this.height - this.top;
      if (y < this.scroll + 20 || y + ROW > this.scroll + room - 20) this.scroll = y - room / 3;
      this.clampScroll();
    }
    this.onChange();
  }

  select(slice) {
    this.selected = slice;
    this.onChange();
  }
}
