// The view that compares the best fitness of several experiments.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { get, isExport } from './api.js';
import { Chart } from './chart.js';
import { CATEGORIES } from './colours.js';
import { html } from './html.js';
import { Choice } from './components.js';
import { amount, percent, span, ticks, whole } from './format.js';

const ACROSS = {
  seconds: { label: 'training time' },
  flops: { label: 'FLOPs' },
  individuals: { label: 'individuals' },
};
const ACROSS_VALUES = {
  seconds: { ticks },
  flops: { values: amount },
  individuals: { values: amount },
};

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
          const curve = await get(`/api/experiments/${key}/records`);
          if (wanted) setCurves((known) => ({ ...known, [key]: curve }));
        } catch {
          // The experiment is gone; the curve that was read before stays on the page.
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
  const colour = (key) =>
    CATEGORIES[usable.findIndex((one) => one.key === key) % CATEGORIES.length];
  const dash = (key) =>
    [undefined, [8, 4], [2, 3]][
      Math.floor(usable.findIndex((one) => one.key === key) / CATEGORIES.length) % 3
    ];
  const data = useMemo(
    () => joined(shown.map((one) => [curves[one.key][across], curves[one.key].best])),
    [curves, chosen, across],
  );
  const toggle = (key) =>
    setChosen((known) => {
      const next = new Set(known);
      if (!next.delete(key)) next.add(key);
      return next;
    });
  const series = shown.map((one) => ({
    label: one.name,
    colour: colour(one.key),
    dash: dash(one.key),
  }));
  const row = (one) => html`<${Row}
    experiment=${one}
    curve=${curves[one.key]}
    colour=${colour(one.key)}
    chosen=${chosen.has(one.key)}
    current=${one.key === current}
    address=${open.address('population', '', one.key)}
    onToggle=${() => toggle(one.key)}
  />`;
  return html`<section class="compare" data-curves=${shown.length} data-across=${across}>
    <div class="bar">
      <${Choice} label="across" value=${across} options=${ACROSS} onChange=${setAcross} />
      ${
        usable.length < 2 &&
        html`<span class="faint">
          There is only one experiment here; start the dashboard on a folder of experiments
          to compare several.
        </span>`
      }
    </div>
    <${Chart}
      key="${across} ${shown.length}"
      data=${data}
      stepped=${true}
      series=${series}
      x=${{ label: ACROSS[across].label, ...ACROSS_VALUES[across] }}
      y=${{ label: 'best fitness so far', values: (value) => percent(value, 0) }}
      theme=${theme}
      height=${380}
      label="Best fitness so far"
    />
    <div class="scroll">
      <table>
        <thead>
          <tr>
            <th></th><th>experiment</th><th>data</th><th class="n">best</th>
            <th class="n">individuals</th><th class="n">time</th><th class="n">FLOPs</th>
          </tr>
        </thead>
        <tbody>${experiments.map(row)}</tbody>
      </table>
    </div>
  </section>`;
}

function Row({ experiment, curve, colour, chosen, current, address, onToggle }) {
  const { name, data, trouble } = experiment;
  const latest = (values, format) => (curve?.best.length ? format(values.at(-1)) : '–');
  return html`<tr class=${current ? 'current' : ''}>
    <td>
      <label>
        <input
          type="checkbox"
          checked=${chosen}
          disabled=${Boolean(trouble)}
          onChange=${onToggle}
          aria-label="show ${name}"
        /> ${!trouble && html`<i class="swatch" style=${{ background: colour }}></i>`}
      </label>
    </td>
    <td>
      ${
        trouble
          ? html`${name}<div class="trouble">${trouble}</div>`
          : html`<a href=${address}>${name}</a>`
      }
    </td>
    <td class="data">${data}</td>
    <td class="n">${latest(curve?.best, (value) => percent(value, 2))}</td>
    <td class="n">${latest(curve?.individuals, whole)}</td>
    <td class="n">${latest(curve?.seconds, span)}</td>
    <td class="n">${latest(curve?.flops, amount)}</td>
  </tr>`;
}

// Puts step curves with different steps on one axis. Each curve keeps its value until its next step
// and ends at its last one.
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
