// The view of the population: one dot per individual, with time, FLOPs or the order of birth on the
// x axis and fitness on the y axis.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { ScatterPlot } from './scatter-plot.js';
import { COLOURINGS, colouring, darkest, shade } from './colours.js';
import { html } from './html.js';
import { Choice, Facts, Tiles } from './components.js';
import { AXES } from './population.js';
import { STATES, amount, clock, percent, points, rate, span, whole } from './format.js';

const changeText = (change) =>
  change.label ||
  Object.entries(change.values)
    .slice(0, 2)
    .map(([name, [, value]]) => (typeof value === 'object' ? name : `${name} = ${value}`))
    .join(', ');

export function PopulationView({ population, version, status, selected, onSelect, theme, open }) {
  const root = useRef();
  const scatter = useRef();
  const [axis, setAxis] = useState('time');
  const [mode, setMode] = useState('state');
  const [only, setOnly] = useState(null);
  const [hovered, setHovered] = useState(-1);
  const [zoomed, setZoomed] = useState(false);
  const coloured = useMemo(
    () => colouring(population, mode, only),
    [population, version, mode, only, theme],
  );
  useEffect(() => {
    scatter.current = new ScatterPlot(root.current, {
      onHover: setHovered,
      onView: setZoomed,
      onSelect: (row, opened) => onSelect(row, opened),
    });
    // Tests and benchmarks reach the plot through this name.
    window.genepoolCloud = scatter.current;
    return () => scatter.current.destroy();
  }, []);
  const changes = useMemo(
    () => status.changes.map((change) => ({ ...change, text: changeText(change) })),
    [status.changes],
  );
  useEffect(() => {
    const { colours } = coloured;
    const { records } = status;
    scatter.current.show(population, { axis, mode, colours, selected, changes, records });
  }, [population, version, axis, coloured, selected, changes.length, status.records.best.length]);
  useEffect(() => {
    if (scatter.current.plot) scatter.current.restyle();
  }, [theme]);
  const changeMode = (value) => {
    setMode(value);
    setOnly(null);
  };
  const row = hovered >= 0 ? hovered : selected;
  const shown = row >= 0 && row < population.size;
  const best = population.best();
  return html`<section class="population">
    <${Tiles} status=${status} />
    <div class="bar">
      <${Choice} label="across" value=${axis} options=${AXES} onChange=${setAxis} />
      <${Choice} label="colour" value=${mode} options=${COLOURINGS} onChange=${changeMode} />
      <button onClick=${() => scatter.current.zoom(0.6)} aria-label="zoom in">+</button>
      <button onClick=${() => scatter.current.zoom(1 / 0.6)} aria-label="zoom out">−</button>
      <button class="reset" disabled=${!zoomed} onClick=${() => scatter.current.look(null)}>
        everything
      </button>
      <span class="grow"></span>
      <span class="faint hint">
        wheel zooms, dragging moves; keys: n next, p previous, b best, Enter opens
      </span>
    </div>
    <div class="with-side">
      <div>
        <div
          class="cloud"
          ref=${root}
          data-individuals=${population.size}
          data-dots=${population.order.length}
          aria-label="Every individual as a dot: ${AXES[axis].label} against fitness"
          role="application"
        ></div>
        <${Legend} coloured=${coloured} mode=${mode} only=${only} onOnly=${setOnly} />
        ${changes.length > 0 && html`<${Changes} changes=${changes} />`}
      </div>
      <aside class="side" aria-live="polite">
        ${
          shown
            ? html`<${Glance} population=${population} row=${row} open=${open} />`
            : html`<p class="faint">
                  Every dot is a network. Point at one for its facts; click it to follow its
                  ancestors.
                </p>
                ${
                  best >= 0 &&
                  html`<h3>The best so far</h3>
                    <${Glance} population=${population} row=${best} open=${open} />`
                }`
        }
      </aside>
    </div>
  </section>`;
}

function Changes({ changes }) {
  const value = ([name, [before, after]]) => html`<div>
    <code>${name}</code> ${JSON.stringify(before)} → ${JSON.stringify(after)}
  </div>`;
  return html`<details class="changes">
    <summary>
      ${changes.length} ${changes.length > 1 ? 'changes' : 'change'} of settings (dashed lines)
    </summary>
    <ul>
      ${changes.map(
        (change) => html`<li>
          <b>version ${change.version}</b> ${change.label}${' '}
          <span class="faint">${clock(change.when)} ${change.who}</span>
          ${Object.entries(change.values).map(value)}
        </li>`,
      )}
    </ul>
  </details>`;
}

function Legend({ coloured, mode, only, onOnly }) {
  if (coloured.legend) {
    const key = ({ code, name, colour, count }) => html`<button
      class="key"
      aria-pressed=${only === code}
      onClick=${() => onOnly(only === code ? null : code)}
      title="show only these"
    >
      <i style=${{ background: colour }}></i>${name} <span class="faint">${whole(count)}</span>
    </button>`;
    return html`<div class="legend">
      ${coloured.legend.map(key)}
      <span class="key"><i class="stairs"></i>best so far</span>
    </div>`;
  }
  const [low, high] = coloured.range;
  const format = mode === 'learning_rate' ? rate : amount;
  const from = darkest();
  const shades = [0, 0.25, 0.5, 0.75, 1].map((share) => shade(from + (1 - from) * share));
  const background = `linear-gradient(90deg, ${shades.join(',')})`;
  return html`<div class="legend">
    <span>${format(low)}</span><i class="ramp" style=${{ background }}></i>
    <span>${format(high)}</span><span class="faint">${COLOURINGS[mode].label}</span>
  </div>`;
}

function Glance({ population, row, open }) {
  const state = population.stateOf(row);
  const parent = population.parent[row];
  const gain = parent >= 0 ? population.fitness[row] - population.fitness[parent] : NaN;
  const id = population.ids[row];
  const fitness = population.fitness[row];
  return html`<div class="glance" data-id=${id}>
    <p class="big">
      ${Number.isNaN(fitness) ? STATES[state] : percent(fitness, 2)} ${
        !Number.isNaN(gain) && html`<span class=${gain >= 0 ? 'up' : 'down'}>${points(gain)}</span>`
      }
    </p>
    <${Facts} facts=${[
      ['individual', html`<code>${id}</code>`],
      ['state', STATES[state] || state],
      ['made by', population.mutations[population.mutation[row]] || 'from nothing'],
      ['convolutions', population.depth[row]],
      ['parameters', population.parameters[row] ? amount(population.parameters[row]) : ''],
      ['learning rate', rate(population.learning_rate[row])],
      ['FLOPs', population.flops[row] ? amount(population.flops[row]) : ''],
      ['trained for', population.flops[row] ? span(population.seconds[row]) : ''],
      ['generation', population.ancestors(row).length],
    ]} />
    <p class="buttons">
      <button class="primary" onClick=${() => open('individual', id)}>Network</button>
      <button onClick=${() => open('lineage', id)}>Lineage</button>
    </p>
  </div>`;
}
