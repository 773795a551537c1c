// Numbers for people.

function formatTime(ns, digits = 3) {
  const size = Math.abs(ns);
  if (size >= 1e9) return (ns / 1e9).toFixed(digits) + ' s';
  if (size >= 1e6) return (ns / 1e6).toFixed(digits) + ' ms';
  if (size >= 1e3) return (ns / 1e3).toFixed(digits) + ' \u00b5s';
  return Math.round(ns) + ' ns';
}

// A mark of the time axis: as many digits as its distance to the next one needs.
function formatTick(ns, distance) {
  const [unit, word] = distance >= 1e9 || ns >= 1e10 ? [1e9, ' s'] : distance >= 1e5 || ns >= 1e7 ? [1e6, ' ms']
    : distance >= 100 || ns >= 1e4 ? [1e3, ' \u00b5s'] : [1, ' ns'];
  const digits = Math.max(0, Math.min(9, Math.ceil(-Math.log10(distance / unit) - 1e-9)));
  return (ns / unit).toFixed(digits) + word;
}

function formatCount(value) { return Number(value).toLocaleString('en-US'); }

function formatNumber(value, digits) {
  return value === null || value === undefined ? '\u2013'
    : Number(value).toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

// An element with text (never markup) and children.
function element(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  if (options.text !== undefined) made.textContent = options.text;
  if (options.className) made.className = options.className;
  for (const [key, value] of Object.entries(options.attributes || {})) made.setAttribute(key, value);
  if (options.click) made.addEventListener('click', options.click);
  made.append(...children);
  return made;
}
