// The view of an individual's ancestors, from the trivial network on, and their relatives.
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { Diagram } from './diagram.js';
import { html } from './html.js';
import { EmptyState, useDocument } from './components.js';
import { STATES, amount, percent, points, rate, several, short, whole } from './format.js';

export function LineageView({ base, id, population, version, open }) {
  const best = population.best();
  const chosen = id || (best >= 0 ? population.ids[best] : '');
  const { value, error } = useDocument(
    chosen && `${base}/lineage/${chosen}`,
    population.rows.has(chosen) ? population.stateOf(population.rows.get(chosen)) : '',
  );
  const strip = useEndInSight(value);
  if (!chosen) {
    const text = 'No individual is alive yet; the lineage of the best one will be drawn here.';
    return html`<${EmptyState} text=${text} open=${open} />`;
  }
  if (error) return html`<${EmptyState} text=${error} open=${open} />`;
  if (!value) return html`<p class="faint pad">Reading the lineage …</p>`;
  const line = value.ancestors;
  const first = line[0]?.mutations.length ? 'the first known ancestor' : 'the trivial network';
  const leftOut = value.left_out ? `, ${whole(value.left_out)} earlier ones left out` : '';
  return html`<section class="lineage" data-generations=${line.length}>
    <header>
      <h2>From ${first} to ${percent(line.at(-1).fitness, 2)}</h2>
      <p class="faint">
        ${several(line.length, 'generation')}${leftOut}; ${
          id ? html`individual <code>${chosen}</code>` : 'the best so far'
        }. Dead ancestors were collected; their records were kept.
      </p>
    </header>
    <div class="strip" ref=${strip} tabindex="0">
      ${line.map(
        (one, i) =>
          html`${i > 0 && html`<${Step} one=${one} gain=${one.fitness - line[i - 1].fitness} />`}
            <${Card} one=${one} chosen=${one.id === chosen} open=${open} />`,
      )}
    </div>
    <h3>Relatives</h3>
    <${Family} population=${population} version=${version} chosen=${chosen} open=${open} />
  </section>`;
}

// The arrow between two generations.
function Step({ one, gain }) {
  return html`<div class="between">
    <span class="mutation">${one.mutations.join(' + ') || '?'}</span>
    ${one.second && html`<span class="faint">with ${short(one.second)}</span>`}
    <span class="arrow"></span>
    ${
      Number.isFinite(gain) && html`<span class=${gain >= 0 ? 'up' : 'down'}>${points(gain)}</span>`
    }
  </div>`;
}

function Card({ one, chosen, open }) {
  const elsewhere = one.state === 'elsewhere';
  return html`<a
    class="card ${chosen ? 'chosen' : ''}"
    href=${elsewhere ? undefined : open.address('individual', one.id)}
    title=${one.network}
  >
    <span class="drawing">
      ${
        one.layers.length > 0 &&
        html`<${Diagram} layers=${one.layers} small=${true} title=${one.network} />`
      }
    </span>
    <strong>${percent(one.fitness)}</strong>
    <span class="faint">${amount(one.parameters)} parameters</span>
    <span class="faint">rate ${rate(one.learning_rate)}</span>
    <span class="faint">
      ${STATES[one.state] || (elsewhere ? 'in another population' : one.trouble || '')}
    </span>
  </a>`;
}

// Scrolls a long element to its right end, where the latest entries are.
function useEndInSight(what) {
  const root = useRef();
  useEffect(() => {
    if (root.current) root.current.scrollLeft = root.current.scrollWidth;
  }, [what]);
  return root;
}

// Draws generations to the right and fitness upwards: the lineage itself, the other children of its
// members and the descendants of the chosen individual.
function Family({ population, version, chosen, open }) {
  const root = useEndInSight(chosen);
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
  const heights = members.map(([one]) =>
    Number.isNaN(population.fitness[one]) ? 0 : population.fitness[one],
  );
  const [low, high] = [
    heights.reduce((a, b) => Math.min(a, b), 1),
    heights.reduce((a, b) => Math.max(a, b), 0),
  ];
  const wide = Math.max(640, Math.min(3000, 60 + 46 * last));
  const tall = 240;
  const x = (generation) => 52 + (generation * (wide - 72)) / Math.max(1, last);
  const y = (one) =>
    tall -
    18 -
    ((Number.isNaN(population.fitness[one]) ? 0 : population.fitness[one]) - low) *
      ((tall - 36) / Math.max(1e-6, high - low));
  const place = new Map(members);
  const colours = { A: 'alive', D: 'dead', T: 'training', F: 'failed', Q: 'failed' };
  const branch = ([one, generation]) => {
    const parent = population.parent[one];
    if (parent < 0 || !place.has(parent)) return null;
    return html`<line
      class=${onLine.has(one) ? 'line' : 'branch'}
      x1=${x(place.get(parent))}
      y1=${y(parent)}
      x2=${x(generation)}
      y2=${y(one)}
    />`;
  };
  const dot = ([one, generation]) => {
    const names = [
      colours[population.stateOf(one)] || 'dead',
      onLine.has(one) ? 'line' : '',
      one === row ? 'chosen' : '',
    ];
    const mutation = population.mutations[population.mutation[one]];
    return html`<a href=${open.address('individual', population.ids[one])}>
      <circle
        class=${names.join(' ')}
        cx=${x(generation)}
        cy=${y(one)}
        r=${onLine.has(one) ? 5 : 3}
      >
        <title>${percent(population.fitness[one], 2)} ${mutation}</title>
      </circle>
    </a>`;
  };
  return html`<div class="scroll" ref=${root}>
      <svg
        class="family"
        width=${wide}
        height=${tall}
        viewBox="0 0 ${wide} ${tall}"
        role="img"
        aria-label="Family tree: ${members.length} individuals"
      >
        <text x="0" y="12">${percent(high)}</text>
        <text x="0" y=${tall - 4}>${percent(low)}</text>
        ${members.map(branch)}
        ${members.map(dot)}
      </svg>
    </div>
    <p class="faint small-text">
      Generations to the right, fitness upwards; ${several(members.length, 'relative')}: the
      lineage itself, the other children of its members, and its descendants.
    </p>`;
}
