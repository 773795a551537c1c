// Puts the page together.

const $ = (id) => document.getElementById(id);
const page = readPage();
const summary = page.summary;
const timeline = page.timeline;

function fillHeader() {
  const subject = [summary.model, summary.mode, summary.config && summary.config.device, page.shown_name];
  $('title').textContent = 'libreyolo timeline';
  $('subject').textContent = subject.filter(Boolean).join('  \u00b7  ');
  document.title = [page.shown_name, 'timeline'].filter(Boolean).join(' - ');
  $('bound').textContent = summary.bound || 'no verdict';
  $('why').textContent = summary.bound_why || '';
  $('advice').hidden = !summary.levers.length;
  $('levers').replaceChildren(...summary.levers.map((text) => element('li', { text })));
  const findings = summary.findings || [];
  const items = findings.map((finding) => element('li', { className: finding.severity.toLowerCase() },
    element('span', { className: 'severity', text: finding.severity }), finding.text + ' ',
    element('span', { className: 'quiet', text: finding.code })));
  items.push(...page.notes.map((text) => element('li', { text })));
  $('caveats').hidden = !items.length;
  $('caveats-title').textContent = [summary.validity && `validity: ${summary.validity}`,
    findings.length && `${findings.length} finding${findings.length > 1 ? 's' : ''}`,
    page.notes.length && `${page.notes.length} note${page.notes.length > 1 ? 's' : ''} on this page`]
    .filter(Boolean).join('  \u00b7  ');
  $('caveats-list').replaceChildren(...items);
  $('tiles').replaceChildren(...makeTiles());
}

function makeTiles() {
  const gpu = summary.gpu === 'recorded';
  const known = (value) => value !== null && value !== undefined;
  const spread = known(summary.img_per_s_std) ? ` \u00b1 ${formatNumber(summary.img_per_s_std, 2)}` : '';
  return [
    ['step', summary.step_ms, (value) => formatNumber(value, 2) + ' ms'],
    ['throughput', summary.img_per_s, (value) => formatNumber(value, 1) + spread + ' img/s'],
    ['latency p50 / p99', summary.latency, (value) => `${formatNumber(value.p50_ms, 2)} / ${formatNumber(value.p99_ms, 2)} ms`],
    ['waiting for data', summary.dataload_ms, (value) => formatNumber(value, 2) + ' ms'],
    ['GPU utilisation', gpu ? summary.gpu_util : null, (value) => formatNumber(value * 100, 0) + ' %'],
    ['GPU busy per step', gpu ? summary.gpu_busy_ms_per_step : null, (value) => formatNumber(value, 2) + ' ms'],
    ['kernels per step', gpu ? summary.kernels_per_step : null, formatCount],
    ['mean kernel', gpu ? summary.mean_kernel_us : null, (value) => formatNumber(value, 1) + ' \u00b5s'],
    ['launches per step', gpu ? summary.launches_per_step : null, formatCount],
    ['Tensor Cores', gpu ? summary.tensorcore_pct : null, (value) => formatNumber(value, 1) + ' %'],
    ['copies per step', gpu ? summary.memcpy_ms_per_step : null, (value) => formatNumber(value, 2) + ' ms'],
    [summary.memory_pressure ? 'peak VRAM, under pressure' : 'peak VRAM', summary.peak_vram_mb,
      (value) => formatNumber(value, 0) + ' MB', summary.memory_pressure],
    ['threads', summary.threads, formatCount],
    ['peak memory', summary.peak_rss_mb, (value) => formatNumber(value, 0) + ' MB'],
    ['traced / untraced', summary.tracing_overhead_ratio, (value) => formatNumber(value, 2)],
  ].filter(([, value]) => known(value)).map(([title, value, show, alarm]) => element('div',
    { className: alarm ? 'tile alarm' : 'tile' }, element('b', { text: show(value) }), element('span', { text: title })));
}

// ---- the timeline ----

const canvas = $('canvas');
const stats = { firstDrawMs: null, lastDrawMs: 0, draws: 0 };
let view = null, painter = null, input = null, isDrawPending = false;

function drawNow() {
  isDrawPending = false;
  const begin = performance.now();
  painter.draw();
  stats.lastDrawMs = performance.now() - begin;
  stats.firstDrawMs ??= performance.now();
  ++stats.draws;
  $('range').textContent = `${formatTime(Math.max(0, view.from), 2)} \u2013 ${formatTime(view.to, 2)}  (${
    formatTime(view.to - view.from, 2)})`;
}

function requestDraw() {
  if (isDrawPending || !painter) return;
  isDrawPending = true;
  requestAnimationFrame(drawNow);
}

function nameOf(slice) { return timeline.names[timeline.name[slice]]; }

function hover(slice, x, y) {
  if (slice !== view.hovered) {
    view.hovered = slice;
    requestDraw();
  }
  const tip = $('tip');
  tip.hidden = slice < 0;
  if (slice < 0) return;
  const name = nameOf(slice), events = eventsIn(timeline, slice);
  const more = [formatTime(timeline.duration[slice]), KINDS[name.kind], name.category].filter(Boolean);
  if (events > 1) more.splice(1, 1, `${formatCount(events)} events, ${formatTime(busyOf(timeline, slice))} busy, longest:`);
  tip.replaceChildren(element('div', { className: 'more', text: more.join('  \u00b7  ') }),
    element('div', { className: 'name', text: name.text }));
  const left = Math.min(x + 14, view.width - tip.offsetWidth - 6), below = y + 18 + tip.offsetHeight < view.height;
  tip.style.left = Math.max(4, left) + 'px';
  tip.style.top = (below ? y + 18 : Math.max(2, y - 10 - tip.offsetHeight)) + 'px';
}

function choose(slice) {
  view.marked = null;
  view.select(slice);
  tabs.selection = slice >= 0 ? describeSlice(slice) : null;
  if (slice >= 0) tabs.open('selection'); else if (tabs.current === 'selection') tabs.render();
}

function goTo(slice) {
  choose(slice);
  view.reveal(slice);
}

function definition(pairs) {
  const list = element('dl');
  for (const [title, value] of pairs) {
    if (value === null || value === undefined || value === '') continue;
    list.append(element('dt', { text: title }), element('dd', {}, ...[value].flat()));
  }
  return list;
}

function link(slice, text) { return element('button', { className: 'link', text, click: () => goTo(slice) }); }

function describeSlice(slice) {
  const name = nameOf(slice), track = timeline.tracks[rowOf(timeline, slice).track];
  const start = timeline.start[slice], launch = timeline.launch[slice];
  const events = eventsIn(timeline, slice);
  const asOf = launch >= 0 ? timeline.start[launch] : start;  // a kernel belongs where its launch does
  const { process } = launch >= 0 ? timeline.tracks[rowOf(timeline, launch).track] : track;
  const step = sliceAt(timeline, 'steps', process, asOf), phase = sliceAt(timeline, 'phases', process, asOf);
  const started = name.flags & LAUNCHES ? launchedBy(timeline, slice) : [];
  const pairs = [
    ['kind', events > 1 ? `${formatCount(events)} short events drawn as one; the name is the longest one's` : KINDS[name.kind]],
    ['duration', formatTime(timeline.duration[slice])],
    ['busy', events > 1 ? formatTime(busyOf(timeline, slice)) : null],
    ['start', formatTime(start)],
    ['lane', [track.name, track.detail].filter(Boolean).join('  \u00b7  ')],
    ['step', step >= 0 && name.kind > PHASE ? link(step, `${nameOf(step).text}, ${formatTime(start - timeline.start[step])} after its start`) : null],
    ['phase', phase >= 0 && name.kind > PHASE ? link(phase, nameOf(phase).text) : null],
    ['category', name.category ? name.category + (name.flags & TENSOR_CORE ? ', on Tensor Cores' : '') : null],
    ['launched by', launch >= 0 && events === 1 ? link(launch, `${nameOf(launch).text}, ${formatTime(start - timeline.start[launch])} before`) : null],
    ['launched', started.length ? [...started.slice(0, 10).map((kernel, i) => [i ? ', ' : '', link(kernel, nameOf(kernel).short)]).flat(),
      started.length > 10 ? ` and ${formatCount(started.length - 10)} more` : ''] : null],
    ['same name', `${formatCount(name.count)} in the trace, ${formatTime(name.time)} in all, ${formatTime(name.time / name.count)} each`],
  ];
  return [element('h3', { text: name.text }), definition(pairs),
    element('button', { text: 'Zoom to it', click: () => view.reveal(slice, true) }), ' ',
    element('button', { text: 'Mark all of this name', click: () => searchFor([name.text], [name.kind]) })];
}

// What ran in a stretch of time, by lane.
function describeRange(from, to) {
  const rows = [];
  for (const track of timeline.tracks) {
    const row = timeline.rows[track.rows[0]];
    let count = 0, time = 0;
    for (let i = firstEndingAfter(timeline, row, from); i < row.end && timeline.start[i] < to; ++i) {
      count += eventsIn(timeline, i);
      time += Math.min(to, timeline.start[i] + timeline.duration[i]) - Math.max(from, timeline.start[i]);
    }
    if (count) rows.push([track, count, time]);
  }
  const body = element('tbody', {}, ...rows.map(([track, count, time]) => element('tr', {},
    element('td', { text: track.kind === 'stream' ? `${track.detail}, ${track.name}` : track.name }),
    element('td', { className: 'number', text: formatCount(count) }),
    element('td', { className: 'number', text: formatTime(time) }),
    element('td', { className: 'number', text: formatNumber(time / (to - from) * 100, 1) + ' %' }))));
  const head = element('tr', {}, ...['lane (outermost row)', 'events', 'busy', 'share'].map((text, i) =>
    element('th', { className: i ? 'number' : '' }, element('button', { text, attributes: { disabled: '' } }))));
  return [element('h3', { text: `${formatTime(to - from)} from ${formatTime(from)}` }),
    element('button', { text: 'Zoom to it', click: () => view.show(from, to) }),
    element('table', {}, element('thead', {}, head), body)];
}

// ---- search ----

const search = { slices: null, at: -1, count: 0 };

function applyMatches(matching) {
  view.matching = matching;
  search.slices = null;
  search.at = -1;
  search.count = 0;
  if (matching) timeline.names.forEach((name, i) => { if (matching[i]) search.count += name.count; });
  showSearchCount();
  requestDraw();
}

function showSearchCount() {
  const at = search.at >= 0 ? `${formatCount(search.at + 1)} of ` : '';
  $('search-count').textContent = view && view.matching ? `${at}${formatCount(search.count)} found` : '';
}

function searchText(text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return applyMatches(null);
  const matching = new Uint8Array(timeline.names.length);
  timeline.names.forEach((name, i) => {
    name.lower ??= (name.text + ' ' + name.label).toLowerCase();
    matching[i] = name.lower.includes(wanted) ? 1 : 0;
  });
  applyMatches(matching);
}

// Exactly these names, of these kinds; the first one comes into sight.
function searchFor(names, kinds) {
  if (!timeline) return;
  const wanted = new Set(names);
  $('search').value = names[0];
  applyMatches(Uint8Array.from(timeline.names, (name) => (wanted.has(name.text) && kinds.includes(name.kind) ? 1 : 0)));
  if (search.count) step(1, false);
}

// All matches, by time; made when somebody first wants to go from one to the next.
function matches() {
  if (search.slices) return search.slices;
  const found = [];
  for (let i = 0; i < timeline.count; ++i) if (view.matching[timeline.name[i]]) found.push(i);
  found.sort((a, b) => timeline.start[a] - timeline.start[b]);
  return (search.slices = found);
}

function step(direction, open = true) {
  if (!view || !view.matching) return;
  const found = matches();
  if (!found.length) return;
  if (search.at < 0) {
    // The next one from what is in sight.
    const next = found.findIndex((slice) => timeline.start[slice] >= view.from);
    search.at = direction > 0 ? Math.max(0, next) : (next < 0 ? found.length : next) - 1;
  } else {
    search.at += direction;
  }
  search.at = (search.at + found.length) % found.length;
  showSearchCount();
  const slice = found[search.at];
  view.select(slice);
  tabs.selection = describeSlice(slice);
  if (open || tabs.current === 'selection') tabs.open('selection');
  view.reveal(slice);
}

// ---- the panel ----

const tabs = {
  current: '', selection: null, tables: {},

  setUp() {
    const style = getComputedStyle(document.documentElement);
    const colourOf = (category) => style.getPropertyValue('--' + (KERNEL_COLOURS[category] || 'other'));
    const find = (names, kinds) => searchFor(names, kinds);
    this.tables = {
      phases: new Table({ columns: phaseColumns(), rows: () => page.phases, named: (row) => [row.phase], kinds: [PHASE] }, find),
      kernels: new Table({ columns: kernelColumns(page.texts, colourOf), rows: (phase) => rowsOf(page.kernels, phase),
        named: (row) => [page.texts[row[0]]], kinds: [KERNEL] }, find),
      ops: new Table({ columns: opColumns(page.texts), rows: (phase) => rowsOf(page.ops, phase),
        named: (row) => [page.texts[row[0]]], kinds: [OPERATION] }, find),
    };
    const titles = [['phases', `Phases (${page.phases.length})`],
      ['kernels', `Kernels (${formatCount(rowsOf(page.kernels, '').length)})`],
      ['ops', `Operations (${formatCount(rowsOf(page.ops, '').length)})`]];
    if (timeline) titles.push(['selection', 'Selection']);
    $('tabs').replaceChildren(...titles.map(([id, text]) => element('button', { text,
      attributes: { id: 'tab-' + id, role: 'tab', 'aria-controls': 'content' }, click: () => this.open(id) })));
    $('phase').append(element('option', { text: 'all', attributes: { value: '' } }), ...page.kernels.slice(1).map(
      ([phase]) => element('option', { text: phase, attributes: { value: phase } })));
    $('phase').addEventListener('change', () => this.render());
    $('filter').addEventListener('input', () => this.render());
    this.open(rowsOf(page.kernels, '').length ? 'kernels' : rowsOf(page.ops, '').length ? 'ops' : 'phases');
  },

  open(id) {
    if (this.current !== id) $('content').scrollTop = 0;
    this.current = id;
    for (const tab of $('tabs').children) tab.setAttribute('aria-selected', tab.id === 'tab-' + id);
    this.render();
  },

  render() {
    const table = this.tables[this.current];
    $('controls').hidden = !table;
    if (!table) {
      $('content').replaceChildren(...(this.selection ||
        [element('p', { className: 'quiet', text: 'Click a slice, or Shift+drag over a stretch of time.' })]));
      return;
    }
    const hasPhases = this.current !== 'phases' && page.kernels.length > 1;
    $('phase-choice').hidden = !hasPhases;
    table.render($('content'), $('shown'), hasPhases ? $('phase').value : '', $('filter').value);
  },
};

function setUpSplitter() {
  const splitter = $('splitter'), panel = $('panel');
  const resize = (height) => {
    panel.style.height = Math.max(90, Math.min(height, window.innerHeight - 220)) + 'px';
  };
  let from = null;
  splitter.addEventListener('pointerdown', (event) => {
    splitter.setPointerCapture(event.pointerId);
    from = event.clientY + panel.offsetHeight;
  });
  splitter.addEventListener('pointermove', (event) => { if (from !== null) resize(from - event.clientY); });
  splitter.addEventListener('pointerup', () => { from = null; });
  splitter.addEventListener('keydown', (event) => {
    if (event.key === 'ArrowUp') resize(panel.offsetHeight + 30);
    if (event.key === 'ArrowDown') resize(panel.offsetHeight - 30);
  });
}

function setUpTimeline() {
  if (!timeline || !timeline.count) {
    $('empty').hidden = false;
    $('empty').textContent = page.notes[0] || 'There is no event to draw.';
    $('toolbar').hidden = canvas.hidden = true;
    $('timeline').style.flex = '0 0 120px';
    $('panel').style.height = 'auto';
    $('panel').style.flex = '1';
    $('splitter').hidden = true;
    return;
  }
  view = new View(timeline, requestDraw);
  painter = new Painter(canvas, view);
  const clear = () => {
    $('help').hidden = true;
    $('search').value = '';
    applyMatches(null);
    choose(-1);
  };
  input = new Input(canvas, view, {
    hover, choose, clear, search: step, focusSearch: () => $('search').select(), help: toggleHelp,
    mark: (from, to) => {
      view.select(-1);
      tabs.selection = describeRange(from, to);
      tabs.open('selection');
    },
  });
  $('search').addEventListener('input', (event) => searchText(event.target.value));
  $('search').addEventListener('keydown', (event) => { if (event.key === 'Enter') step(event.shiftKey ? -1 : 1); });
  $('search-next').addEventListener('click', () => step(1));
  $('search-previous').addEventListener('click', () => step(-1));
  $('zoom-in').addEventListener('click', () => view.zoom(0.5));
  $('zoom-out').addEventListener('click', () => view.zoom(2));
  $('zoom-all').addEventListener('click', () => view.showAll());
  $('zoom-window').addEventListener('click', () => view.showWindow());
  $('zoom-window').hidden = !timeline.window;
  $('help-button').addEventListener('click', toggleHelp);
  const recolour = () => {
    painter.readColours();
    tabs.render();
    requestDraw();
  };
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', recolour);
  new ResizeObserver(() => {
    painter.resize();
    drawNow();
  }).observe($('stage'));
}

function toggleHelp() {
  $('help').hidden = !$('help').hidden;
  $('help-button').setAttribute('aria-expanded', String(!$('help').hidden));
}

fillHeader();
setUpTimeline();
tabs.setUp();
setUpSplitter();

// For the console and the tests.
window.libreyoloTimeline = { page, timeline, view, stats, tabs, search, requestDraw, drawNow };
