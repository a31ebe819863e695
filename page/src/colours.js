// These colours (Okabe and Ito; Tol; cividis) can be told apart with any kind of colour vision.
// Packed colours are 0xAABBGGRR, as in the image data of a canvas.
export const CATEGORIES = [
  '#0072b2',
  '#e69f00',
  '#009e73',
  '#cc79a7',
  '#56b4e9',
  '#d55e00',
  '#8f8800',
  '#882255',
  '#44aa99',
  '#6a5acd',
  '#a0522d',
  '#ddcc77',
  '#117733',
  '#aa4499',
  '#5f8fa8',
  '#b07c00',
];
const CIVIDIS = [
  '#00224e',
  '#123570',
  '#3b496c',
  '#575d6d',
  '#707173',
  '#8a8678',
  '#a59c74',
  '#c3b369',
  '#e1cc55',
  '#fee838',
];

const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
};

export function palette() {
  const style = getComputedStyle(document.documentElement);
  const value = (name) => style.getPropertyValue(name).trim();
  return {
    alive: value('--alive'),
    dead: value('--dead'),
    training: value('--training'),
    failed: value('--failed'),
    record: value('--record'),
    text: value('--text'),
    faint: value('--faint'),
    line: value('--line'),
    ground: value('--ground'),
    change: value('--change'),
    chosen: value('--chosen'),
  };
}

const parts = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const packed = (hex, alpha = 255) => {
  const [r, g, b] = parts(hex);
  return ((alpha << 24) | (b << 16) | (g << 8) | r) >>> 0;
};

// The colour scale starts here: its darkest shades would be invisible on a dark background.
export const darkest = () => (isDark() ? 0.22 : 0);

// Returns the colour scale in 256 steps from low to high.
function ramp() {
  const from = darkest();
  const colours = new Uint32Array(256);
  for (let i = 0; i < 256; i++) colours[i] = packed(shade(from + (1 - from) * (i / 255)));
  return colours;
}

export function shade(share) {
  const place = Math.min(Math.max(share, 0), 1) * (CIVIDIS.length - 1);
  const low = Math.min(Math.floor(place), CIVIDIS.length - 2);
  const [a, b] = [parts(CIVIDIS[low]), parts(CIVIDIS[low + 1])];
  return `#${a
    .map((value, i) =>
      Math.round(value + (b[i] - value) * (place - low))
        .toString(16)
        .padStart(2, '0'),
    )
    .join('')}`;
}

export const COLOURINGS = {
  state: { label: 'state' },
  mutation: { label: 'mutation' },
  depth: { label: 'convolutions', column: 'depth', log: false },
  parameters: { label: 'parameters', column: 'parameters', log: true },
  learning_rate: { label: 'learning rate', column: 'learning_rate', log: true },
};

// Returns one packed colour per row and the contents of the legend. If `only` names a category, the
// other categories are faded.
export function colouring(population, mode, only) {
  const colours = new Uint32Array(population.size);
  return mode === 'state' || mode === 'mutation'
    ? byCategory(population, mode, only, colours)
    : byNumber(population, COLOURINGS[mode], colours);
}

function byCategory(population, mode, only, colours) {
  const theme = palette();
  const faded = packed(theme.line);
  let names;
  let codes;
  let hexes;
  if (mode === 'state') {
    names = { D: 'dead', A: 'alive', T: 'in training', F: 'failed', Q: 'in quarantine' };
    hexes = { D: theme.dead, A: theme.alive, T: theme.training, F: theme.failed, Q: theme.failed };
    codes = (row) => population.stateOf(row);
  } else {
    names = Object.fromEntries(population.mutations.map((name, i) => [i, name || 'from nothing']));
    hexes = Object.fromEntries(
      population.mutations.map((name, i) => [i, CATEGORIES[i % CATEGORIES.length]]),
    );
    codes = (row) => population.mutation[row];
  }
  const bright = Object.fromEntries(Object.keys(hexes).map((code) => [code, packed(hexes[code])]));
  const counts = {};
  for (let row = 0; row < population.size; row++) {
    const code = codes(row);
    counts[code] = (counts[code] || 0) + 1;
    colours[row] = only == null || String(code) === only ? bright[code] : faded;
  }
  const legend = Object.keys(names)
    .filter((code) => counts[code])
    .map((code) => ({ code, name: names[code], colour: hexes[code], count: counts[code] }));
  if (mode === 'mutation') legend.sort((a, b) => b.count - a.count);
  return { colours, legend };
}

function byNumber(population, { column, log }, colours) {
  const values = population[column];
  const scaled = (value) => (log ? Math.log10(Math.max(value, 1e-12)) : value);
  let low = Infinity;
  let high = -Infinity;
  for (const row of population.order) {
    if (!(values[row] > 0)) continue;
    low = Math.min(low, values[row]);
    high = Math.max(high, values[row]);
  }
  if (low > high) [low, high] = [0, 1];
  const steps = ramp();
  const [from, to] = [scaled(low), scaled(high)];
  for (let row = 0; row < population.size; row++) {
    const share = to > from ? (scaled(values[row]) - from) / (to - from) : 1;
    colours[row] = steps[Math.min(255, Math.max(0, Math.round(255 * (share || 0))))];
  }
  return { colours, range: [low, high] };
}
