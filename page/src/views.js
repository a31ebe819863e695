// The views that show one experiment or several; each is a function of what was read.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { get, isExport, order } from './api.js';
import { Chart } from './chart.js';
import { Cloud } from './cloud.js';
import { CATEGORIES, COLOURINGS, colouring, palette, shade } from './colours.js';
import { Diagram, nameOf } from './diagram.js';
import { html } from './html.js';
import { AXES } from './population.js';
import { STATES, amount, bytes, clock, flop, percent, rate, shape, short, span, ticks, whole } from './words.js';

const Tile = ({ name, value, note }) => html`<div class="tile"><span class="name">${name}</span><strong>${value}</strong><span class="note">${note}</span></div>`;
const Facts = ({ facts }) => html`<dl class="facts">${facts.filter(([, value]) => value != null && value !== '').map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`;
const Choice = ({ label, value, options, onChange }) => html`<label class="choice">${label}
  <select value=${value} onChange=${(event) => onChange(event.target.value)}>${Object.entries(options).map(([key, one]) => html`<option value=${key} selected=${key === value}>${one.label}</option>`)}</select></label>`;

// A document that belongs to what is looked at; asked for again when `again` changes.
function useDocument(path, again) {
  const [found, setFound] = useState({ path: null });
  useEffect(() => {
    let wanted = true;
    if (!path) return undefined;
    get(path).then(
      (value) => wanted && setFound({ path, value }),
      (error) => wanted && setFound({ path, error: error.message }),
    );
    return () => {
      wanted = false;
    };
  }, [path, again]);
  return found.path === path ? found : {};
}

const markText = (mark) => mark.label || Object.entries(mark.changes).slice(0, 2).map(([name, [, value]]) => `${name} ${typeof value === 'object' ? '' : value}`).join(', ');

// -- population ---------------------------------------------------------------------------------------------------------

export function Tiles({ standing }) {
  const { census, spent, pace, budget } = standing;
  return html`<div class="tiles">
    <${Tile} name="best" value=${percent(spent.best)} note=${spent.since_best ? `${whole(spent.since_best)} since` : 'just now'} />
    <${Tile} name="individuals" value=${whole(spent.individuals)} note=${budget.individuals ? `of ${whole(budget.individuals)}` : 'trained'} />
    <${Tile} name="alive" value=${whole(census.alive)} note="${whole(census.training)} in training" />
    <${Tile} name="cost" value="${flop(spent.flops)}" note="${flop(pace.flops_a_second, 'FLOP/s')}" />
    <${Tile} name="time" value=${span(spent.seconds)} note=${standing.over ? 'over' : standing.seconds_left != null ? `${span(standing.seconds_left)} to go` : ''} />
    <${Tile} name="pace" value=${pace.individuals_a_minute.toFixed(pace.individuals_a_minute < 10 ? 1 : 0)} note="a minute" />
  </div>`;
}

export function PopulationView({ population, version, standing, selected, onSelect, theme, open }) {
  const root = useRef();
  const cloud = useRef();
  const [axis, setAxis] = useState('time');
  const [mode, setMode] = useState('state');
  const [only, setOnly] = useState(null);
  const [hovered, setHovered] = useState(-1);
  const [zoomed, setZoomed] = useState(false);
  const coloured = useMemo(() => colouring(population, mode, only), [population, version, mode, only, theme]);
  useEffect(() => {
    cloud.current = new Cloud(root.current, {
      onHover: setHovered,
      onView: setZoomed,
      onSelect: (row, opened) => onSelect(row, opened),
    });
    window.genepoolCloud = cloud.current;
    return () => cloud.current.destroy();
  }, []);
  const marks = useMemo(() => standing.marks.map((mark) => ({ ...mark, text: markText(mark) })), [standing.marks]);
  useEffect(() => {
    cloud.current.show(population, { axis, colours: coloured.colours, selected, marks });
  }, [population, version, axis, coloured, selected, marks.length]);
  useEffect(() => {
    if (cloud.current.plot) cloud.current.restyle();
  }, [theme]);
  const row = hovered >= 0 ? hovered : selected;
  return html`<section class="population">
    <${Tiles} standing=${standing} />
    <div class="bar">
      <${Choice} label="across" value=${axis} options=${AXES} onChange=${setAxis} />
      <${Choice} label="colour" value=${mode} options=${COLOURINGS} onChange=${(value) => { setMode(value); setOnly(null); }} />
      <button onClick=${() => cloud.current.zoom(0.6)} aria-label="zoom in">+</button>
      <button onClick=${() => cloud.current.zoom(1 / 0.6)} aria-label="zoom out">−</button>
      <button class="reset" disabled=${!zoomed} onClick=${() => cloud.current.look(null)}>everything</button>
      <span class="grow"></span>
      <span class="faint hint">wheel or pinch zooms, dragging moves; n, p, b, Enter on the keyboard</span>
    </div>
    <div class="with-side">
      <div>
        <div class="cloud" ref=${root} data-individuals=${population.size} data-dots=${population.order.length} aria-label="Every individual as a dot: ${AXES[axis].label} against fitness" role="application"></div>
        <${Legend} coloured=${coloured} mode=${mode} only=${only} onOnly=${setOnly} />
        ${marks.length > 0 && html`<details class="marks"><summary>${marks.length} ${marks.length > 1 ? 'changes' : 'change'} of settings (dashed lines)</summary>
          <ul>${marks.map((mark) => html`<li><b>version ${mark.version}</b> ${mark.label} <span class="faint">${clock(mark.when)} ${mark.who}</span>
            ${Object.entries(mark.changes).map(([name, [before, after]]) => html`<div><code>${name}</code> ${JSON.stringify(before)} → ${JSON.stringify(after)}</div>`)}</li>`)}</ul></details>`}
      </div>
      <aside class="side" aria-live="polite">${row >= 0 && row < population.size
        ? html`<${Glance} population=${population} row=${row} open=${open} />`
        : html`<p class="faint">Every dot is a network. Point at one for its facts; click it to follow its ancestors.</p>
          ${population.best() >= 0 && html`<h3>The best so far</h3><${Glance} population=${population} row=${population.best()} open=${open} />`}`}
      </aside>
    </div>
  </section>`;
}

function Legend({ coloured, mode, only, onOnly }) {
  if (coloured.legend) {
    return html`<div class="legend">${coloured.legend.map(({ code, name, colour, count }) => html`<button class="key" aria-pressed=${only === code} onClick=${() => onOnly(only === code ? null : code)} title="show only these">
      <i style=${{ background: colour }}></i>${name} <span class="faint">${whole(count)}</span></button>`)}
      <span class="key"><i class="stairs"></i>best so far</span></div>`;
  }
  const [low, high] = coloured.range;
  const format = mode === 'learning_rate' ? rate : amount;
  return html`<div class="legend"><span>${format(low)}</span><i class="ramp" style=${{ background: `linear-gradient(90deg, ${[0, 0.25, 0.5, 0.75, 1].map(shade).join(',')})` }}></i><span>${format(high)}</span><span class="faint">${COLOURINGS[mode].label}</span></div>`;
}

function Glance({ population, row, open }) {
  const state = population.stateOf(row);
  const parent = population.parent[row];
  const gain = parent >= 0 ? population.fitness[row] - population.fitness[parent] : NaN;
  const id = population.ids[row];
  return html`<div class="glance" data-id=${id}>
    <p class="big">${Number.isNaN(population.fitness[row]) ? STATES[state] : percent(population.fitness[row], 2)} ${!Number.isNaN(gain) && html`<span class=${gain >= 0 ? 'up' : 'down'}>${gain >= 0 ? '+' : '−'}${(100 * Math.abs(gain)).toFixed(2)}</span>`}</p>
    <${Facts} facts=${[
      ['individual', html`<code>${id}</code>`],
      ['state', STATES[state] || state],
      ['by', population.mutations[population.mutation[row]] || 'from nothing'],
      ['convolutions', population.depth[row]],
      ['parameters', population.parameters[row] ? amount(population.parameters[row]) : ''],
      ['learning rate', rate(population.learning_rate[row])],
      ['cost', population.flops[row] ? `${flop(population.flops[row])}, ${span(population.seconds[row])}` : ''],
      ['generation', population.ancestors(row).length],
    ]} />
    <p class="buttons"><button class="primary" onClick=${() => open('individual', id)}>Network</button><button onClick=${() => open('lineage', id)}>Lineage</button></p>
  </div>`;
}

// -- individual -----------------------------------------------------------------------------------------------------------

export function IndividualView({ base, id, population, version, theme, open }) {
  const state = population.rows.has(id) ? population.stateOf(population.rows.get(id)) : '';
  const { value: one, error } = useDocument(id && `${base}/individuals/${id}`, state);
  const { value: line } = useDocument(id && `${base}/lineage/${id}`, state);
  const [copied, setCopied] = useState(false);
  const colours = palette();
  const losses = useMemo(() => (one?.losses?.length ? [one.losses.map(([step]) => step), one.losses.map(([, loss]) => loss)] : [[], []]), [one]);
  const rates = useMemo(() => (line ? [line.ancestors.map((_, i) => i), line.ancestors.map((a) => a.learning_rate ?? null)] : [[], []]), [line]);
  const children = useMemo(() => {
    const row = population.rows.get(id);
    const found = [];
    if (row === undefined) return found;
    for (let i = 0; i < population.size; i++) if (population.parent[i] === row) found.push(i);
    return found;
  }, [id, version]);
  if (!id) return html`<${Nobody} text="No individual is chosen: click a dot, or press b for the best one." open=${open} />`;
  if (error) return html`<${Nobody} text=${error} open=${open} />`;
  if (!one) return html`<p class="faint pad">Reading ${id} …</p>`;
  const dna = JSON.stringify(one.dna, null, 2);
  const copy = async () => {
    await copyText(dna);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return html`<section class="individual" data-id=${one.id}>
    <header><h2>${percent(one.fitness, 2)} <span class="faint">${STATES[one.state]}${one.reason ? `: ${one.reason}` : ''}</span></h2>
      <p><code>${one.id}</code> <span class="faint">${one.network}</span></p>
      <p class="buttons">
        <button onClick=${() => open('lineage', one.id)}>Lineage</button>
        <button class="copy" onClick=${copy}>${copied ? 'Copied' : 'Copy DNA'}</button>
        <a class="button" download="${one.id}.dna.json" href=${isExport ? `data:application/json,${encodeURIComponent(dna)}` : `${base}/individuals/${one.id}/dna`}>Download DNA</a>
        ${one.has_weights && !isExport && html`<a class="button" download href="${base}/individuals/${one.id}/model">Download model</a>`}
      </p></header>
    ${one.trouble && html`<p class="trouble">${one.trouble}</p>`}
    <div class="columns">
      <div class="drawing"><${Diagram} layers=${one.layers} classes=${one.classes} title="The architecture of ${one.id}" />
        <p class="faint small-text">Width: the activation's size. <span class="swatch strided"></span> strided, <span class="swatch fresh"></span> weights drawn anew, arcs: skips.</p></div>
      <div class="facts-and-curves">
        <${Facts} facts=${[
          ['made by', one.mutations.join(' + ') || 'from nothing'],
          ['parents', one.parents.length ? one.parents.map((parent) => html`<a href=${open.address('individual', parent)}>${short(parent)}</a> `) : 'none'],
          ['children', children.length ? html`${children.slice(0, 12).map((row) => html`<a href=${open.address('individual', population.ids[row])}>${percent(population.fitness[row])}</a> `)}${children.length > 12 && `and ${children.length - 12} more`}` : 'none'],
          ['accuracy', one.accuracy !== one.fitness ? percent(one.accuracy, 2) : ''],
          ['parameters', whole(one.parameters)],
          ['cost', `${flop(one.flops)} in all; a step ${flop(one.flops_training)}, validation batch ${flop(one.flops_forward)}`],
          ['training', `${whole(one.steps)} steps in ${span(one.seconds)}`],
          ['learning rate', rate(one.learning_rate)],
          ['weights', one.inherited.length + one.fresh.length ? `${one.inherited.length} tensors inherited, ${one.fresh.length} drawn anew` : ''],
          ['born', `${clock(one.born)}, settings version ${one.settings_version}`],
          ['trained by', `${one.worker}${one.attempt > 1 ? `, attempt ${one.attempt}` : ''}`],
        ]} />
        <h3>Training loss</h3>
        <${Chart} data=${losses} series=${[{ label: 'loss', colour: colours.alive, points: losses[0].length < 4 }]} x=${{ label: 'step', values: amount }} theme=${theme} height=${180} label="Training loss by step" />
        ${rates[0].length > 1 && html`<h3>Learning rate along the lineage</h3>
        <${Chart} data=${rates} log=${true} series=${[{ label: 'learning rate', colour: colours.record, points: true }]} x=${{ label: 'generation', values: (v) => (Number.isInteger(v) ? v : '') }} y=${{ values: rate }} theme=${theme} height=${160} label="Learning rate by generation" />`}
      </div>
    </div>
    <h3>Edges</h3>
    <div class="scroll"><table><thead><tr><th>to</th><th>edge</th><th>from</th><th>kind</th><th>gives</th><th class="n">parameters</th><th class="n">FLOPs an image</th><th>weights</th></tr></thead>
      <tbody>${one.layers.flatMap((layer, i) => layer.edges.map((edge) => html`<tr class=${edge.backbone ? '' : 'skip'}>
        <td>${i} ${nameOf(layer, i)}</td><td><code>${edge.edge}</code></td><td>${edge.from}</td>
        <td>${edge.kind === 'conv' ? `conv ${edge.filter.join('×')}${edge.stride > 1 ? ` / ${edge.stride}` : ''}` : edge.backbone ? 'identity' : 'skip'}</td>
        <td>${shape(layer.shape)}</td><td class="n">${edge.parameters == null ? '–' : whole(edge.parameters)}</td><td class="n">${amount(edge.flops)}</td>
        <td>${edge.kind !== 'conv' ? '' : edge.fresh ? 'new' : one.inherited.length ? 'inherited' : ''}</td></tr>`))}</tbody></table></div>
  </section>`;
}

// Without a secure address browsers offer no clipboard; the old way still works.
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement('textarea');
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
}

export const Nobody = ({ text, open }) => html`<div class="blank"><p>${text}</p><p><button onClick=${() => open('population')}>To the population</button></p></div>`;

// -- lineage --------------------------------------------------------------------------------------------------------------

export function LineageView({ base, id, population, version, open }) {
  const best = population.best();
  const chosen = id || (best >= 0 ? population.ids[best] : '');
  const { value, error } = useDocument(chosen && `${base}/lineage/${chosen}`, population.rows.has(chosen) ? population.stateOf(population.rows.get(chosen)) : '');
  const strip = useRef();
  useEffect(() => {
    if (strip.current) strip.current.scrollLeft = strip.current.scrollWidth;
  }, [value]);
  if (!chosen) return html`<${Nobody} text="Nobody is alive yet; the line of the best one will be drawn here." open=${open} />`;
  if (error) return html`<${Nobody} text=${error} open=${open} />`;
  if (!value) return html`<p class="faint pad">Reading the lineage …</p>`;
  const line = value.ancestors;
  return html`<section class="lineage" data-generations=${line.length}>
    <header><h2>From ${line[0]?.mutations.length ? 'the first one known' : 'the trivial network'} to ${percent(line.at(-1).fitness, 2)}</h2>
      <p class="faint">${line.length} generations${value.left_out ? `, ${whole(value.left_out)} before them left out` : ''}; ${id ? html`individual <code>${chosen}</code>` : 'the best so far'}. The dead of the line were collected; their records were kept.</p></header>
    <div class="strip" ref=${strip} tabindex="0">${line.map((one, i) => {
      const gain = i ? one.fitness - line[i - 1].fitness : NaN;
      return html`${i > 0 && html`<div class="between"><span class="mutation">${one.mutations.join(' + ') || '?'}</span><span class="arrow"></span>
        ${Number.isFinite(gain) && html`<span class=${gain >= 0 ? 'up' : 'down'}>${gain >= 0 ? '+' : '−'}${(100 * Math.abs(gain)).toFixed(2)}</span>`}</div>`}
        <a class="card ${one.id === chosen ? 'chosen' : ''}" href=${open.address('individual', one.id)} title=${one.network}>
          <span class="drawing">${one.layers.length > 0 && html`<${Diagram} layers=${one.layers} small=${true} title=${one.network} />`}</span>
          <strong>${percent(one.fitness)}</strong><span class="faint">${amount(one.parameters)} par.</span><span class="faint">lr ${rate(one.learning_rate)}</span>
          <span class="faint">${STATES[one.state] || one.trouble || ''}</span></a>`;
    })}</div>
    <h3>The family around it</h3>
    <${Family} population=${population} version=${version} chosen=${chosen} open=${open} />
  </section>`;
}

// Generations to the right, fitness upwards: the line itself, the other children of everybody on it, and its own descendants.
function Family({ population, version, chosen, open }) {
  const drawing = useMemo(() => {
    const row = population.rows.get(chosen);
    if (row === undefined) return null;
    const { first, next } = population.children();
    const line = population.ancestors(row).reverse();
    const onLine = new Set(line);
    const members = [];
    const limit = 3000;
    line.forEach((ancestor, generation) => {
      members.push([ancestor, generation]);
      for (let child = first[ancestor]; child >= 0 && members.length < limit; child = next[child]) {
        if (!onLine.has(child)) members.push([child, generation + 1]);
      }
    });
    let wave = [];
    for (let child = first[row]; child >= 0; child = next[child]) wave.push(child);
    for (let generation = line.length + 1; wave.length && members.length < limit; generation++) {
      const further = [];
      for (const one of wave) {
        for (let child = first[one]; child >= 0 && members.length < limit; child = next[child]) {
          members.push([child, generation]);
          further.push(child);
        }
      }
      wave = further;
    }
    return { members, onLine, row };
  }, [population, version, chosen]);
  if (!drawing) return html`<p class="faint">Not read yet.</p>`;
  const { members, onLine, row } = drawing;
  const last = members.reduce((most, [, generation]) => Math.max(most, generation), 1);
  const heights = members.map(([one]) => (Number.isNaN(population.fitness[one]) ? 0 : population.fitness[one]));
  const [low, high] = [heights.reduce((a, b) => Math.min(a, b), 1), heights.reduce((a, b) => Math.max(a, b), 0)];
  const wide = Math.max(640, Math.min(3000, 60 + 46 * last));
  const tall = 240;
  const x = (generation) => 30 + (generation * (wide - 50)) / Math.max(1, last);
  const y = (one) => tall - 18 - ((Number.isNaN(population.fitness[one]) ? 0 : population.fitness[one]) - low) * ((tall - 36) / Math.max(1e-6, high - low));
  const place = new Map(members.map(([one, generation]) => [one, generation]));
  const colours = { A: 'alive', D: 'dead', T: 'training', F: 'failed', Q: 'failed' };
  return html`<div class="scroll"><svg class="family" width=${wide} height=${tall} viewBox="0 0 ${wide} ${tall}" role="img" aria-label="Family tree: ${members.length} individuals">
    ${members.map(([one, generation]) => population.parent[one] >= 0 && place.has(population.parent[one]) && html`<line class=${onLine.has(one) ? 'line' : 'branch'} x1=${x(place.get(population.parent[one]))} y1=${y(population.parent[one])} x2=${x(generation)} y2=${y(one)} />`)}
    ${members.map(([one, generation]) => html`<a href=${open.address('individual', population.ids[one])}><circle class="${colours[population.stateOf(one)] || 'dead'} ${onLine.has(one) ? 'line' : ''} ${one === row ? 'chosen' : ''}" cx=${x(generation)} cy=${y(one)} r=${onLine.has(one) ? 5 : 3}><title>${percent(population.fitness[one], 2)} ${population.mutations[population.mutation[one]]}</title></circle></a>`)}
  </svg></div><p class="faint small-text">Generations to the right, fitness upwards; ${whole(members.length)} relatives: the line, the other children of everybody on it, and descendants.</p>`;
}

// -- cost and workers -------------------------------------------------------------------------------------------------------

export function CostView({ base, standing, population, version, theme }) {
  const [again, setAgain] = useState(0);
  useEffect(() => {
    const timer = isExport ? 0 : setInterval(() => setAgain((n) => n + 1), 3000);
    return () => clearInterval(timer);
  }, []);
  const { value: crew, error } = useDocument(`${base}/workers`, again);
  const colours = palette();
  const spending = useMemo(() => {
    const step = Math.max(1, Math.floor(population.order.length / 1500));
    const xs = [];
    const ys = [];
    for (let i = 0; i < population.order.length; i += i + step < population.order.length || i === population.order.length - 1 ? step : population.order.length - 1 - i) {
      xs.push(population.elapsed[population.order[i]]);
      ys.push(population.spent[population.order[i]]);
    }
    return [xs, ys];
  }, [population, version]);
  const { spent, pace, budget, census } = standing;
  const limits = [
    ['time', spent.seconds, budget.time, span],
    ['individuals', spent.individuals, budget.individuals, whole],
    ['FLOPs', spent.flops, budget.flops, amount],
    ['fitness', spent.best, budget.target, percent],
    ['without a new best', spent.since_best, budget.plateau, whole],
  ].filter(([, , limit]) => limit);
  return html`<section class="cost">
    <${Tiles} standing=${standing} />
    <div class="columns even">
      <div><h3>Budget</h3>
        ${limits.length ? limits.map(([name, used, limit, format]) => html`<div class="budget"><span>${name}</span><progress max=${limit} value=${Math.min(used, limit)} aria-label=${name}></progress><span>${format(used)} of ${format(limit)}</span></div>`) : html`<p>No limit is set: it goes on until somebody stops it.</p>`}
        <p>${standing.over ? `The experiment is over: ${standing.over}.` : standing.seconds_left != null ? `About ${span(standing.seconds_left)} to go at the present pace.` : 'How long it will take cannot be told yet.'}</p>
        <${Facts} facts=${[
          ['overhead', `${percent(pace.overhead)} of the training time is not steps 2 to n`],
          ['disk', crew && `${bytes(crew.disk.results + crew.disk.logs)}: ${bytes(crew.disk.results)} models of the living, ${bytes(crew.disk.logs)} records`],
          ['last finished', clock(pace.last_finished)],
          ['odd', [census.failed && `${census.failed} failed`, census.quarantined && `${census.quarantined} in quarantine`, census.foreign && `${census.foreign} foreign entries`, standing.damaged && `${standing.damaged} damaged records`].filter(Boolean).join(', ') || 'nothing'],
        ]} /></div>
      <div><h3>FLOPs spent</h3><${Chart} data=${spending} series=${[{ label: 'FLOPs', colour: colours.alive }]} x=${{ label: 'time of training', ticks }} y=${{ values: amount }} theme=${theme} height=${220} label="FLOPs by time" /></div>
    </div>
    <h3>Workers</h3>
    ${error && html`<p class="trouble">${error}</p>`}
    ${crew && (crew.workers.length ? html`<div class="scroll"><table class="workers"><thead><tr><th>worker</th><th>host</th><th>trains</th><th>since</th><th class="n">step</th><th>last beat</th><th class="n">trained</th><th class="n">overhead</th></tr></thead>
      <tbody>${crew.workers.map((one) => html`<tr class=${one.stale ? 'stale' : ''}><td><code>${one.who}</code></td><td>${one.host} ${one.process}</td><td>${one.trains ? html`<code>${short(one.trains)}</code>${one.attempt > 1 ? ` (attempt ${one.attempt})` : ''}` : '–'}</td>
        <td>${one.since ? span(standing.now - one.since) : '–'}</td><td class="n">${one.step ?? '–'}</td><td>${one.stale ? html`<b>silent for ${span(one.silent)}</b>: its training may be taken over` : `${span(one.silent)} ago`}</td><td class="n">${whole(one.individuals)}</td><td class="n">${percent(one.overhead, 0)}</td></tr>`)}</tbody></table></div>`
      : html`<p>Nobody is at work${crew.before ? `; ${crew.before} worked on it before` : ''}. <code>genepool run</code> or <code>genepool worker</code> goes on.</p>`)}
    ${crew && crew.handed_over.length > 0 && html`<p>${crew.handed_over.length} handed over, waiting for a worker: ${crew.handed_over.slice(0, 5).map((one) => html`<code>${short(one)}</code> `)}</p>`}
    ${crew && crew.quarantined.length + crew.foreign.length + crew.damaged.length > 0 && html`<h3>Put aside</h3><ul class="odd">
      ${crew.quarantined.map((one) => html`<li>in quarantine: <code>${one.id}</code> (${one.why})</li>`)}
      ${crew.damaged.map((one) => html`<li>damaged: <code>${one}</code></li>`)}
      ${crew.foreign.map((one) => html`<li>foreign: <code>${one}</code></li>`)}</ul><p class="faint">Nothing of this stops evolution; <code>genepool check</code> tells more.</p>`}
    ${crew && crew.events.length > 0 && html`<details><summary>The latest from the workers' diaries</summary><ul class="events">${crew.events.slice(0, 60).map((one) => html`<li><span class="faint">${clock(one.time)}</span> <code>${one.worker}</code> ${one.what} <code>${short(one.id)}</code> ${one.note}</li>`)}</ul></details>`}
  </section>`;
}

// -- compare ----------------------------------------------------------------------------------------------------------------

const ACROSS = { seconds: { label: 'time of training' }, flops: { label: 'FLOPs' }, individuals: { label: 'individuals' } };
const ACROSS_VALUES = { seconds: { ticks }, flops: { values: amount }, individuals: { values: amount } };

export function CompareView({ experiments, current, theme, open }) {
  const usable = experiments.filter((one) => !one.trouble);
  const [chosen, setChosen] = useState(() => new Set(usable.slice(0, 8).map((one) => one.key)));
  const [curves, setCurves] = useState({});
  const [across, setAcross] = useState('seconds');
  useEffect(() => {
    let wanted = true;
    const look = async () => {
      for (const key of chosen) {
        try {
          const curve = await get(`/api/experiments/${key}/curve`);
          if (wanted) setCurves((known) => ({ ...known, [key]: curve }));
        } catch {
          // It is gone: what was read of it stays.
        }
      }
    };
    look();
    const timer = isExport ? 0 : setInterval(look, 4000);
    return () => {
      wanted = false;
      clearInterval(timer);
    };
  }, [chosen]);
  const shown = usable.filter((one) => chosen.has(one.key) && curves[one.key]?.best.length);
  const colour = (key) => CATEGORIES[usable.findIndex((one) => one.key === key) % CATEGORIES.length];
  const dash = (key) => [undefined, [8, 4], [2, 3]][Math.floor(usable.findIndex((one) => one.key === key) / CATEGORIES.length) % 3];
  const data = useMemo(() => joined(shown.map((one) => [curves[one.key][across], curves[one.key].best])), [curves, chosen, across]);
  const toggle = (key) => setChosen((known) => {
    const next = new Set(known);
    if (!next.delete(key)) next.add(key);
    return next;
  });
  return html`<section class="compare" data-curves=${shown.length}>
    <div class="bar"><${Choice} label="across" value=${across} options=${ACROSS} onChange=${setAcross} />
      ${usable.length < 2 && html`<span class="faint">Only one experiment is here; start the dashboard on a folder of experiments to compare several.</span>`}</div>
    <${Chart} key="${across} ${shown.length}" data=${data} stepped=${true} series=${shown.map((one) => ({ label: one.name, colour: colour(one.key), dash: dash(one.key) }))} x=${{ label: ACROSS[across].label, ...ACROSS_VALUES[across] }} y=${{ values: (value) => percent(value, 0) }} theme=${theme} height=${380} label="Best fitness so far" />
    <div class="scroll"><table><thead><tr><th></th><th>experiment</th><th>data</th><th class="n">best</th><th class="n">individuals</th><th class="n">time</th><th class="n">cost</th></tr></thead>
      <tbody>${experiments.map((one) => {
        const curve = curves[one.key];
        return html`<tr class=${one.key === current ? 'current' : ''}><td><label><input type="checkbox" checked=${chosen.has(one.key)} disabled=${Boolean(one.trouble)} onChange=${() => toggle(one.key)} aria-label="show ${one.name}" /> ${!one.trouble && html`<i class="swatch" style=${{ background: colour(one.key) }}></i>`}</label></td>
          <td>${one.trouble ? html`${one.name}<div class="trouble">${one.trouble}</div>` : html`<a href=${open.address('population', '', one.key)}>${one.name}</a>`}</td><td>${one.data}</td>
          <td class="n">${curve?.best.length ? percent(curve.best.at(-1), 2) : '–'}</td><td class="n">${curve?.best.length ? whole(curve.individuals.at(-1)) : '–'}</td>
          <td class="n">${curve?.best.length ? span(curve.seconds.at(-1)) : '–'}</td><td class="n">${curve?.best.length ? `${flop(curve.flops.at(-1))}` : '–'}</td></tr>`;
      })}</tbody></table></div>
  </section>`;
}

// Staircases with different steps over one axis: each keeps its value until its own next step, and ends with its last.
function joined(curves) {
  const xs = [...new Set(curves.flatMap(([x]) => x))].sort((a, b) => a - b);
  return [
    xs,
    ...curves.map(([x, y]) => {
      let at = -1;
      return xs.map((value) => {
        while (at + 1 < x.length && x[at + 1] <= value) at += 1;
        return at < 0 || value > x.at(-1) ? null : y[at];
      });
    }),
  ];
}

// -- control ----------------------------------------------------------------------------------------------------------------

export function ControlView({ base, standing, token, onToken, allowed }) {
  const [said, setSaid] = useState(null);
  const [entered, setEntered] = useState('');
  const [name, setName] = useState('mutations');
  const [text, setText] = useState('');
  const [burst, setBurst] = useState({ mutations: 5, lasts: '100' });
  const [sure, setSure] = useState('');
  if (!allowed) return html`<div class="blank"><p>This dashboard only shows. Started with <code>--control</code>, it prints an address with a token for those who may change things.</p></div>`;
  if (!token) {
    return html`<form class="blank" onSubmit=${(event) => { event.preventDefault(); onToken(entered.trim()); }}>
      <p>Changing an experiment needs the token that was printed when the dashboard was started.</p>
      <p><label>token <input name="token" autocomplete="off" value=${entered} onInput=${(event) => setEntered(event.target.value)} /></label> <button class="primary">Use it</button></p></form>`;
  }
  const send = async (body, done) => {
    setSure('');
    try {
      const answer = await order(`${base}/control`, body, token);
      setSaid({ good: true, text: `${done} Settings version ${answer.settings_version} is in force from each worker's next step on.` });
    } catch (error) {
      if (error.status === 401) onToken('');
      setSaid({ good: false, text: error.message });
    }
  };
  const tunable = Object.keys(standing.settings).filter((key) => !standing.fixed.includes(key));
  const value = standing.settings[name];
  return html`<section class="control">
    ${said && html`<p class=${said.good ? 'done' : 'trouble'} role="status">${said.text}</p>`}
    <h3>Change a setting</h3>
    <form onSubmit=${(event) => { event.preventDefault(); send({ set: { [name]: text } }, `${name} is ${text} now.`); }}>
      <select name="setting" aria-label="setting" value=${name} onChange=${(event) => { setName(event.target.value); setText(''); }}>${tunable.map((key) => html`<option value=${key} selected=${key === name}>${key}</option>`)}</select>
      <input name="value" aria-label="new value" placeholder=${typeof value === 'object' ? JSON.stringify(value) : String(value)} value=${text} onInput=${(event) => setText(event.target.value)} />
      <button class="primary" disabled=${!text}>Change</button></form>
    <h3>Help it out of a local optimum</h3>
    <form onSubmit=${(event) => { event.preventDefault(); send({ mutations: Number(burst.mutations), lasts: burst.lasts }, 'More mutations for a while.'); }}>
      <label><input type="number" min="1" max="1000" value=${burst.mutations} onInput=${(event) => setBurst({ ...burst, mutations: event.target.value })} aria-label="mutations" /> mutations at each reproduction</label>
      <label> for <input value=${burst.lasts} onInput=${(event) => setBurst({ ...burst, lasts: event.target.value })} aria-label="how long" size="6" /> individuals (or 10m)</label>
      <button>Raise the rate</button></form>
    <p><button class=${sure === 'reset' ? 'danger' : ''} onClick=${() => (sure === 'reset' ? send({ reset_weights: true }, 'All weights are reset.') : setSure('reset'))}>${sure === 'reset' ? 'Really reset everybody’s weights?' : 'Reset all weights'}</button>
      <span class="faint">Everybody must earn its fitness again; the best network goes as well.</span></p>
    <h3>Stop</h3>
    <p><button class="danger" onClick=${() => (sure === 'stop' ? send({ stop: true }, 'Workers hand over what they train and end.') : setSure('stop'))}>${sure === 'stop' ? 'Really stop all workers?' : 'Stop the experiment'}</button>
      <span class="faint">Sets the budget to what has been trained; a larger <code>individuals</code>, or 0, and <code>genepool run</code> go on. Nothing is lost.</span></p>
    <details><summary>Settings in force (version ${standing.settings_version})</summary><${Facts} facts=${Object.entries(standing.settings).map(([key, one]) => [key, html`<code>${typeof one === 'object' ? JSON.stringify(one) : String(one)}</code>`])} /></details>
  </section>`;
}
