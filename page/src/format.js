// Formats numbers, times and identifiers for the page.
const POWERS = ['', 'k', 'M', 'G', 'T', 'P', 'E', 'Z'];

export const percent = (share, digits = 1) =>
  share == null || Number.isNaN(share) ? '–' : `${(100 * share).toFixed(digits)} %`;

export function amount(value) {
  if (value == null || Number.isNaN(value)) return '–';
  if (Math.abs(value) < 1000) return `${+value.toPrecision(3)}`;
  const power = Math.min(Math.floor(Math.log10(Math.abs(value) * 1.0005) / 3), POWERS.length - 1);
  return `${+(value / 1000 ** power).toPrecision(3)} ${POWERS[power]}`;
}

export const flop = (value, unit = 'FLOP') =>
  `${amount(value)}${Math.abs(value) < 1000 ? ' ' : ''}${unit}`;

export const whole = (value) => (value == null ? '–' : Math.round(value).toLocaleString('en'));

export function span(seconds) {
  if (seconds == null || Number.isNaN(seconds)) return '–';
  const s = Math.max(0, seconds);
  if (s > 0 && s < 0.1) return `${Math.max(1, Math.round(1000 * s))} ms`;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.round(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m ${String(Math.round(s) % 60).padStart(2, '0')} s`;
  if (s < 172800)
    return `${Math.floor(s / 3600)} h ${String(Math.floor((s % 3600) / 60)).padStart(2, '0')} m`;
  return `${(s / 86400).toFixed(1)} days`;
}

// These are the usual distances in seconds between the ticks of a time axis.
export const INCREMENTS = [
  0.01,
  0.02,
  0.05,
  0.1,
  0.2,
  0.5,
  1,
  2,
  5,
  10,
  15,
  30,
  60,
  120,
  300,
  600,
  900,
  1800,
  3600,
  7200,
  10800,
  21600,
  43200,
  ...[1, 2, 5, 10, 20, 50].map((days) => 86400 * days),
];

// Labels the ticks of a time axis with as many digits as the distance between two ticks needs.
export function ticks(values) {
  const step = values[1] - values[0];
  if (!(values.at(-1) < 60))
    return values.map((value) => (value ? span(value).replace(/ 00 [sm]$|[.]0(?= s$)/, '') : '0'));
  const digits = step < 0.1 ? 2 : Number.isInteger(step) ? 0 : 1;
  return values.map((value) => (value == null ? '' : `${value.toFixed(digits)} s`));
}

export const clock = (wall) => (wall ? new Date(1000 * wall).toLocaleString() : '–');

export const bytes = (value) => flop(value, 'B');

// A difference of two fitnesses is given in points, because percent would be ambiguous.
export const points = (gain) =>
  `${gain >= 0 ? '+' : '−'}${(100 * Math.abs(gain)).toFixed(2)} points`;

export const several = (count, one, more = `${one}s`) =>
  `${whole(count)} ${count === 1 ? one : more}`;

export const rate = (value) =>
  value == null || Number.isNaN(value) ? '–' : `${+value.toPrecision(3)}`;

export const short = (id) => (id ? `…${id.slice(-6)}` : '');

export const STATES = {
  T: 'in training',
  A: 'alive',
  D: 'dead',
  F: 'failed',
  Q: 'in quarantine',
};

export const shape = (value) => (value ? `${value[0]}×${value[1]}×${value[2]}` : '');
