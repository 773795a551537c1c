// Pointer and keys on the timeline.

class Input {
  // `actions`: hover(slice, x, y), choose(slice), mark(from, to), clear(), search(direction), focusSearch(), help().
  constructor(canvas, view, actions) {
    this.canvas = canvas;
    this.view = view;
    this.actions = actions;
    this.drag = null;
    canvas.addEventListener('pointerdown', (event) => this.down(event));
    canvas.addEventListener('pointermove', (event) => this.move(event));
    canvas.addEventListener('pointerup', (event) => this.up(event));
    canvas.addEventListener('pointercancel', () => this.end());
    canvas.addEventListener('pointerleave', () => { if (!this.drag) actions.hover(-1); });
    canvas.addEventListener('wheel', (event) => this.wheel(event), { passive: false });
    canvas.addEventListener('dblclick', (event) => {
      const slice = view.sliceAtPoint(event.offsetX, event.offsetY);
      if (slice >= 0) view.reveal(slice, true);
    });
    document.addEventListener('keydown', (event) => this.key(event));
  }

  down(event) {
    if (event.button !== 0) return;
    this.canvas.focus({ preventScroll: true });
    this.canvas.setPointerCapture(event.pointerId);
    const { offsetX: x, offsetY: y } = event;
    const kind = y < OVERVIEW && x >= GUTTER ? 'overview' : event.shiftKey && x >= GUTTER ? 'mark' : 'pan';
    this.drag = { kind, x, y, startX: x, startY: y, moved: false, time: this.view.timeAt(x) };
    if (kind === 'overview') this.centre(x);
  }

  centre(x) {
    const view = this.view;
    const half = (view.to - view.from) / 2;
    const time = (x - GUTTER) / view.plotWidth * view.timeline.span;
    view.show(time - half, time + half);
  }

  move(event) {
    const { offsetX: x, offsetY: y } = event;
    const view = this.view, drag = this.drag;
    if (!drag) {
      const slice = view.sliceAtPoint(x, y);
      this.canvas.classList.toggle('pointing', slice >= 0 || (x < GUTTER && this.foldableAt(y) !== undefined));
      this.actions.hover(slice, x, y);
      return;
    }
    drag.moved ||= Math.abs(x - drag.startX) + Math.abs(y - drag.startY) > 4;
    if (!drag.moved) return;
    this.actions.hover(-1);
    if (drag.kind === 'overview') {
      this.centre(x);
    } else if (drag.kind === 'mark') {
      const time = view.timeAt(x);
      view.marked = [Math.min(time, drag.time), Math.max(time, drag.time)];
      this.actions.mark(...view.marked);
    } else {
      this.canvas.classList.add('grabbing');
      view.scroll -= y - drag.y;
      view.clampScroll();
      view.move((drag.x - x) / view.scale);
    }
    drag.x = x;
    drag.y = y;
  }

  foldableAt(y) {
    const place = this.view.placeAt(y);
    return place && this.view.timeline.tracks[place.track].rows.length > 1 ? place.track : undefined;
  }

  up(event) {
    const drag = this.drag;
    this.end();
    if (!drag || drag.moved || drag.kind === 'overview') return;
    if (event.offsetX < GUTTER) {
      const track = this.foldableAt(event.offsetY);
      if (track !== undefined) this.view.toggleFold(track);
      return;
    }
    this.actions.choose(this.view.sliceAtPoint(event.offsetX, event.offsetY));
  }
  end() {
    this.drag = null;
    this.canvas.classList.remove('grabbing');
  }

  wheel(event) {
    event.preventDefault();
    const view = this.view;
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    const dx = event.deltaX * unit, dy = event.deltaY * unit;
    this.actions.hover(-1);
    if (event.shiftKey) {
      view.scrollBy(dy || dx);
    } else if (Math.abs(dx) > Math.abs(dy)) {
      view.move(dx / view.scale);
    } else if (event.offsetX < GUTTER) {
      view.scrollBy(dy);
    } else {
      view.zoom(Math.exp(Math.max(-1, Math.min(1, dy / 250))), view.timeAt(event.offsetX));
    }
  }

  key(event) {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === 'Escape') {
      if (typing) event.target.blur();
      return this.actions.clear();
    }
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const view = this.view, shown = view.to - view.from;
    const onTables = document.getElementById('panel').contains(event.target);
    if (onTables && /^(Arrow|Home)/.test(event.key)) return;
    const keys = {
      w: () => view.zoom(0.7), s: () => view.zoom(1 / 0.7), a: () => view.move(-shown * 0.15),
      d: () => view.move(shown * 0.15), ArrowLeft: () => view.move(-shown * 0.15),
      ArrowRight: () => view.move(shown * 0.15), ArrowUp: () => view.scrollBy(-60), ArrowDown: () => view.scrollBy(60),
      '+': () => view.zoom(0.7), '-': () => view.zoom(1 / 0.7), 0: () => view.showWindow(), Home: () => view.showAll(),
      f: () => { if (view.selected >= 0) view.reveal(view.selected, true); },
      '[': () => this.step(-1), ']': () => this.step(1), n: () => this.actions.search(1),
      p: () => this.actions.search(-1), '/': () => this.actions.focusSearch(), '?': () => this.actions.help(),
    };
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  // Shows the step before or after the one in the middle.
  step(direction) {
    const view = this.view, timeline = view.timeline;
    const track = timeline.tracks.find((candidate) => candidate.kind === 'steps');
    if (!track) return;
    const row = timeline.rows[track.rows[0]];
    const middle = (view.from + view.to) / 2;
    const whole = view.to - view.from > timeline.span * 0.9;
    let at = firstEndingAfter(timeline, row, whole ? -1 : middle);
    if (!whole) at = timeline.start[at] > middle || at >= row.end ? at + Math.min(0, direction) : at + direction;
    at = Math.max(row.begin, Math.min(row.end - 1, at));
    view.reveal(at, false);
    const length = timeline.duration[at];
    view.show(timeline.start[at] - length * 0.05, timeline.start[at] + length * 1.05);
  }
}
