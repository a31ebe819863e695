// The view of the budget and the workers.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { isExport } from './api.js';
import { Chart } from './chart.js';
import { palette } from './colours.js';
import { html } from './html.js';
import { Facts, Tiles, useDocument } from './components.js';
import { amount, bytes, clock, percent, several, short, span, ticks, whole } from './format.js';

export function BudgetView({ base, status, population, version, theme }) {
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
    const last = population.order.length - 1;
    for (let i = 0; i <= last; i += i + step <= last || i === last ? step : last - i) {
      xs.push(population.elapsed[population.order[i]]);
      ys.push(population.spent[population.order[i]]);
    }
    return [xs, ys];
  }, [population, version]);
  return html`<section class="budget-view">
    <${Tiles} status=${status} />
    <div class="columns even">
      <div><${Budget} status=${status} disk=${activity?.disk} /></div>
      <div>
        <h3>FLOPs spent, in total</h3>
        <${Chart}
          data=${spending}
          series=${[{ label: 'FLOPs', colour: colours.alive }]}
          x=${{ label: 'training time', ticks }}
          y=${{ values: amount }}
          theme=${theme}
          height=${220}
          label="FLOPs by time"
        />
      </div>
    </div>
    <h3>Workers</h3>
    ${error && html`<p class="trouble">${error}</p>`}
    ${activity && html`<${Activity} activity=${activity} now=${status.now} />`}
  </section>`;
}

function Budget({ status, disk }) {
  const { spent, budget, census } = status;
  const limits = [
    ['time', spent.seconds, budget.time, span],
    ['individuals', spent.individuals, budget.individuals, whole],
    ['FLOPs', spent.flops, budget.flops, amount],
    ['fitness', spent.best, budget.target, percent],
    ['without a new best', spent.since_best, budget.plateau, whole],
  ].filter(([, , limit]) => limit);
  const faults = [
    census.failed && `${whole(census.failed)} failed`,
    census.quarantined && `${whole(census.quarantined)} in quarantine`,
    census.foreign && several(census.foreign, 'foreign entry', 'foreign entries'),
    status.damaged && several(status.damaged, 'damaged record'),
  ].filter(Boolean);
  const left =
    status.seconds_left != null
      ? `About ${span(status.seconds_left)} to go at the present rate.`
      : 'The remaining time is not known yet.';
  const finalPhase = status.final_phase
    ? ' No more individuals are created: the best one is trained until the end.'
    : '';
  return html`<h3>Budget</h3>
    ${
      limits.length
        ? limits.map(
            ([name, used, limit, format]) => html`<div class="budget">
              <span>${name}</span>
              <progress max=${limit} value=${Math.min(used, limit)} aria-label=${name}></progress>
              <span>${format(used)} of ${format(limit)}</span>
            </div>`,
          )
        : html`<p>No limit is set: the experiment runs until it is stopped.</p>`
    }
    ${
      status.over
        ? html`<p>The experiment is over: ${status.over}.</p>`
        : limits.length > 0 && html`<p>${left}${finalPhase}</p>`
    }
    <${Facts}
      facts=${[
        [
          'overhead',
          `${percent(status.overhead)} of the training time: all but the steps after the first`,
        ],
        [
          'disk',
          disk &&
            `${bytes(disk.results + disk.logs)}: models of living individuals ` +
              `${bytes(disk.results)}, records ${bytes(disk.logs)}`,
        ],
        ['last finished', clock(status.last_finished)],
        ['faults', faults.join(', ') || 'none'],
      ]}
    />`;
}

function Activity({ activity, now }) {
  const { workers, before, handed_over, quarantined, damaged, foreign, events } = activity;
  return html`${
    workers.length
      ? html`<${Workers} workers=${workers} now=${now} />`
      : html`<p>
            No worker is active${before ? `; ${before} worked on it before` : ''}.
            Start <code>genepool run</code> or <code>genepool worker</code> to continue.
          </p>`
  }
    ${
      handed_over.length > 0 &&
      html`<p>
        ${several(handed_over.length, 'individual')} handed over, waiting for a worker:${' '}
        ${handed_over.slice(0, 5).map((one) => html`<code>${short(one)}</code> `)}
      </p>`
    }
    ${
      quarantined.length + foreign.length + damaged.length > 0 &&
      html`<h3>Put aside</h3>
        <ul class="odd">
          ${quarantined.map(
            (one) => html`<li>in quarantine: <code>${one.id}</code> (${one.why})</li>`,
          )}
          ${damaged.map((one) => html`<li>damaged: <code>${one}</code></li>`)}
          ${foreign.map((one) => html`<li>foreign: <code>${one}</code></li>`)}
        </ul>
        <p class="faint">
          None of this stops the evolution; <code>genepool check</code> shows the details.
        </p>`
    }
    ${
      events.length > 0 &&
      html`<details>
        <summary>Latest entries of the workers' logs</summary>
        <ul class="events">${events.slice(0, 60).map(eventRow)}</ul>
      </details>`
    }`;
}

const eventRow = (one) => html`<li>
  <span class="faint">${clock(one.time)}</span> <code>${one.worker}</code> ${one.what}${' '}
  <code>${short(one.id)}</code> ${one.note}
</li>`;

function Workers({ workers, now }) {
  return html`<div class="scroll">
    <table class="workers">
      <thead>
        <tr>
          <th>worker</th><th>host</th><th>training</th><th>since</th><th class="n">step</th>
          <th>last heartbeat</th><th class="n">trained</th><th class="n">overhead</th>
        </tr>
      </thead>
      <tbody>${workers.map((one) => workerRow(one, now))}</tbody>
    </table>
  </div>`;
}

function workerRow(one, now) {
  const attempt = one.attempt > 1 ? ` (attempt ${one.attempt})` : '';
  const heartbeat = one.stale
    ? html`<b>silent for ${span(one.silent)}</b>: its training may be taken over`
    : `${span(one.silent)} ago`;
  return html`<tr class=${one.stale ? 'stale' : ''}>
    <td><code>${one.who}</code></td>
    <td>${one.host}${one.process != null ? `, process ${one.process}` : ''}</td>
    <td>${one.trains ? html`<code>${short(one.trains)}</code>${attempt}` : '–'}</td>
    <td>${one.since ? span(now - one.since) : '–'}</td>
    <td class="n">${one.step ?? '–'}</td>
    <td>${heartbeat}</td>
    <td class="n">${whole(one.individuals)}</td>
    <td class="n">${percent(one.overhead, 0)}</td>
  </tr>`;
}
