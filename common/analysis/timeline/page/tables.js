// The tables below the timeline.

const SHOWN_ROWS = 500;

// `value` is what a column sorts by; text columns sort by it upwards first, numbers downwards.
function number(title, value, digits, extra = {}) { return { title, value, digits, isNumber: true, ...extra }; }

function kernelColumns(texts, colourOf) {
  return [
    { title: 'kernel', value: (row) => texts[row[1]], whole: (row) => texts[row[0]],
      swatch: (row) => colourOf(texts[row[2]]) },
    { title: 'category', value: (row) => texts[row[2]] },
    { title: 'TC', value: (row) => (row[3] ? 'yes' : ''), hint: 'runs on Tensor Cores' },
    number('ms/step', (row) => row[4], 4),
    number('% of GPU', (row) => row[5], 2, { bar: 100 }),
    number('calls/step', (row) => row[6], 0),
    number('total ms', (row) => row[7], 3),
    number('calls', (row) => row[8], 0),
  ];
}

function opColumns(texts) {
  return [
    { title: 'operation', value: (row) => texts[row[0]] },
    number('self ms/step', (row) => row[1], 4),
    number('total ms/step', (row) => row[2], 4),
    number('% of ops', (row) => row[3], 2, { bar: 100, hint: 'of the self time of all operations' }),
    number('calls/step', (row) => row[4], 0),
    number('self ms', (row) => row[5], 3),
    number('total ms', (row) => row[6], 3),
    number('calls', (row) => row[7], 0),
  ];
}

function phaseColumns() {
  return [
    { title: 'phase', value: (row) => row.phase },
    number('GPU ms/step', (row) => row.gpu_ms_per_step, 3),
    number('wall ms/step', (row) => row.wall_ms_per_step, 3),
    number('kernels/step', (row) => row.kernels_per_step, 0),
    number('ops/step', (row) => row.ops_per_step, 0),
    number('different kernels', (row) => row.unique_kernels, 0),
  ];
}

class Table {
  // `source`: { columns, rows(phase), named(row) -> what the timeline calls it, kinds }.
  constructor(source, onChoose) {
    this.source = source;
    this.onChoose = onChoose;
    this.sort = null;  // [column, direction]; none: the server's order
    this.all = false;
    this.chosen = null;
    // A column that nothing fills is left out.
    const rows = source.rows('');
    this.columns = source.columns.filter((column) => !column.isNumber ||
      rows.some((row) => column.value(row) !== null && column.value(row) !== undefined));
  }

  select(phase, filter) {
    let rows = this.source.rows(phase);
    const total = rows.length;
    const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length) {
      const texts = this.columns.filter((column) => !column.isNumber);
      rows = rows.filter((row) => {
        const text = texts.map((column) => column.value(row) + ' ' + (column.whole ? column.whole(row) : '')).join(' ')
          .toLowerCase();
        return words.every((word) => text.includes(word));
      });
    }
    if (this.sort) {
      const [column, direction] = this.sort;
      const value = this.columns[column].value;
      const order = (a, b) => {
        const x = value(a), y = value(b);
        if (x === null || x === undefined) return y === null || y === undefined ? 0 : 1;  // unknown ones last
        if (y === null || y === undefined) return -1;
        return (x < y ? -1 : x > y ? 1 : 0) * direction;
      };
      rows = [...rows].sort(order);
    }
    return { rows, total };
  }

  render(content, shown, phase, filter) {
    const { rows, total } = this.select(phase, filter);
    const limit = this.all ? rows.length : Math.min(rows.length, SHOWN_ROWS);
    shown.textContent = rows.length === total ? `${formatCount(total)} rows` :
      `${formatCount(rows.length)} of ${formatCount(total)} rows`;
    const again = () => this.render(content, shown, phase, filter);
    const head = element('tr');
    for (const [index, column] of this.columns.entries()) {
      const cell = element('th', { className: column.isNumber ? 'number' : '', attributes: { scope: 'col' } },
        element('button', { text: column.title, attributes: column.hint ? { title: column.hint } : {}, click: () => {
          const first = column.isNumber ? -1 : 1;
          this.sort = [index, this.sort && this.sort[0] === index ? -this.sort[1] : first];
          again();
        } }));
      if (this.sort && this.sort[0] === index) {
        cell.setAttribute('aria-sort', this.sort[1] < 0 ? 'descending' : 'ascending');
      }
      head.append(cell);
    }
    const body = element('tbody');
    for (const row of rows.slice(0, limit)) body.append(this.makeRow(row));
    content.replaceChildren(element('table', {}, element('thead', {}, head), body));
    if (limit < rows.length) {
      content.append(element('button', { text: `Show all ${formatCount(rows.length)} rows`, click: () => {
        this.all = true;
        again();
      } }));
    }
    if (!total) content.replaceChildren(element('p', { className: 'quiet', text: 'Nothing was recorded here.' }));
  }

  makeRow(row) {
    const made = element('tr', { attributes: { tabindex: '0', title: 'Find it in the timeline' } });
    if (this.chosen === row) made.className = 'chosen';
    for (const [index, column] of this.columns.entries()) {
      const value = column.value(row);
      if (!column.isNumber) {
        const cell = element('td', { className: index === 0 ? 'name' : '' });
        if (column.swatch) {
          const swatch = element('span', { className: 'swatch' });
          swatch.style.background = column.swatch(row);
          cell.append(swatch);
        }
        cell.append(value);
        const whole = column.whole && column.whole(row);
        if (whole && whole !== value) {
          cell.append(element('span', { className: 'whole', text: whole, attributes: { title: whole } }));
        }
        made.append(cell);
        continue;
      }
      const cell = element('td', { className: 'number', text: formatNumber(value, column.digits) });
      if (column.bar && value !== null && value !== undefined) {
        const bar = element('span', { className: 'bar' });
        bar.style.width = Math.max(1, value / column.bar * 52) + 'px';
        cell.append(element('span', { className: 'barbox' }, bar));
      }
      made.append(cell);
    }
    const choose = () => {
      for (const other of made.parentNode.querySelectorAll('.chosen')) other.className = '';
      made.className = 'chosen';
      this.chosen = row;
      this.onChoose(this.source.named(row), this.source.kinds);
    };
    made.addEventListener('click', choose);
    made.addEventListener('keydown', (event) => { if (event.key === 'Enter') choose(); });
    return made;
  }
}

// Rows of a group of the data: [[phase, rows], ...] with "" for all of them.
function rowsOf(groups, phase) {
  const found = groups.find(([name]) => name === phase);
  return found ? found[1] : [];
}
