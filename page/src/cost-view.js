// The view of the cost, the rest of the budget and the workers.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { isExport } from './api.js';
import { Chart } from './chart.js';
import { palette } from './colours.js';
import { html } from './html.js';
import { Facts, Tiles, useDocument } from './components.js';
import { amount, bytes, clock, percent, several, short, span, ticks, whole } from './format.js';

export function CostView({ base, status, population, version, theme }) {
  const [again, setAgain] = useState(0);
  useEffect(() => {
    const timer = isExport ? 0 : setInterval(() => setAgain((n) => n + 1), 3000);
    return () => clearInterval(timer);
  }, []);
  const { value: activity, error } = useDocument(`${base}/workers`, again);
  const colours = palette();
  const spending = useMemo(() => {
    const step = Math.max(1, Math.floor(population.order.length / 1500));
    const xs = [];
    const ys = [];
    for (
      let i = 0;
      i < population.order.length;
      i +=
        i + step < population.order.length || i === population.order.length - 1
          ? step
          : population.order.length - 1 - i
    ) {
      xs.push(population.elapsed[population.order[i]]);
      ys.push(population.spent[population.order[i]]);
    }
    return [xs, ys];
  }, [population, version]);
  const { spent, pace, budget, census } = status;
  const limits = [
    ['time', spent.seconds, budget.time, span],
    ['individuals', spent.individuals, budget.individuals, whole],
    ['FLOPs', spent.flops, budget.flops, amount],
    ['fitness', spent.best, budget.target, percent],
    ['without a new best', spent.since_best, budget.plateau, whole],
  ].filter(([, , limit]) => limit);
  return html`<section class="cost">
    <${Tiles} status=${status} />
    <div class="columns even">
      <div><h3>Budget</h3>
        ${limits.length ? limits.map(([name, used, limit, format]) => html`<div class="budget"><span>${name}</span><progress max=${limit} value=${Math.min(used, limit)} aria-label=${name}></progress><span>${format(used)} of ${format(limit)}</span></div>`) : html`<p>No limit is set: it goes on until somebody stops it.</p>`}
        ${status.over ? html`<p>The experiment is over: ${status.over}.</p>` : limits.length > 0 && html`<p>${status.seconds_left != null ? `About ${span(status.seconds_left)} to go at the present pace.` : 'How long it will take cannot be told yet.'}${status.finishing ? ' Nobody is born any more: the best one is trained on until the end.' : ''}</p>`}
        <${Facts} facts=${[
          [
            'overhead',
            `${percent(pace.overhead)} of the time of training: all but the steps after the first`,
          ],
          [
            'disk',
            activity &&
              `${bytes(activity.disk.results + activity.disk.logs)}: models of the living ${bytes(activity.disk.results)}, records ${bytes(activity.disk.logs)}`,
          ],
          ['last finished', clock(pace.last_finished)],
          [
            'faults',
            [
              census.failed && `${whole(census.failed)} failed`,
              census.quarantined && `${whole(census.quarantined)} in quarantine`,
              census.foreign && several(census.foreign, 'foreign entry', 'foreign entries'),
              status.damaged && several(status.damaged, 'damaged record'),
            ]
              .filter(Boolean)
              .join(', ') || 'none',
          ],
        ]} /></div>
      <div><h3>FLOPs spent, in all</h3><${Chart} data=${spending} series=${[{ label: 'FLOPs', colour: colours.alive }]} x=${{ label: 'time of training', ticks }} y=${{ values: amount }} theme=${theme} height=${220} label="FLOPs by time" /></div>
    </div>
    <h3>Workers</h3>
    ${error && html`<p class="trouble">${error}</p>`}
    ${
      activity &&
      (activity.workers.length
        ? html`<div class="scroll"><table class="workers"><thead><tr><th>worker</th><th>host</th><th>trains</th><th>since</th><th class="n">step</th><th>last beat</th><th class="n">has trained</th><th class="n">overhead</th></tr></thead>
      <tbody>${activity.workers.map(
        (
          one,
        ) => html`<tr class=${one.stale ? 'stale' : ''}><td><code>${one.who}</code></td><td>${one.host}${one.process != null ? `, process ${one.process}` : ''}</td><td>${one.trains ? html`<code>${short(one.trains)}</code>${one.attempt > 1 ? ` (attempt ${one.attempt})` : ''}` : '–'}</td>
        <td>${one.since ? span(status.now - one.since) : '–'}</td><td class="n">${one.step ?? '–'}</td><td>${one.stale ? html`<b>silent for ${span(one.silent)}</b>: its training may be taken over` : `${span(one.silent)} ago`}</td><td class="n">${whole(one.individuals)}</td><td class="n">${percent(one.overhead, 0)}</td></tr>`,
      )}</tbody></table></div>`
        : html`<p>Nobody is at work${activity.before ? `; ${activity.before} worked on it before` : ''}. <code>genepool run</code> or <code>genepool worker</code> goes on.</p>`)
    }
    ${activity && activity.handed_over.length > 0 && html`<p>${activity.handed_over.length} handed over, waiting for a worker: ${activity.handed_over.slice(0, 5).map((one) => html`<code>${short(one)}</code> `)}</p>`}
    ${
      activity &&
      activity.quarantined.length + activity.foreign.length + activity.damaged.length > 0 &&
      html`<h3>Put aside</h3><ul class="odd">
      ${activity.quarantined.map((one) => html`<li>in quarantine: <code>${one.id}</code> (${one.why})</li>`)}
      ${activity.damaged.map((one) => html`<li>damaged: <code>${one}</code></li>`)}
      ${activity.foreign.map((one) => html`<li>foreign: <code>${one}</code></li>`)}</ul><p class="faint">Nothing of this stops evolution; <code>genepool check</code> tells more.</p>`
    }
    ${activity && activity.events.length > 0 && html`<details><summary>The latest from the workers' diaries</summary><ul class="events">${activity.events.slice(0, 60).map((one) => html`<li><span class="faint">${clock(one.time)}</span> <code>${one.worker}</code> ${one.what} <code>${short(one.id)}</code> ${one.note}</li>`)}</ul></details>`}
  </section>`;
}
