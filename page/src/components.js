// Components and hooks that several views share.
import { useEffect, useState } from 'preact/hooks';
import { get } from './api.js';
import { html } from './html.js';
import { amount, percent, several, span, whole } from './format.js';

const Tile = ({ name, value, note }) => html`<div class="tile">
  <span class="name">${name}</span><strong>${value}</strong><span class="note">${note}</span>
</div>`;

export const Facts = ({ facts }) => html`<dl class="facts">
  ${facts
    .filter(([, value]) => value != null && value !== '')
    .map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}
</dl>`;

export const Choice = ({ label, value, options, onChange }) => html`<label class="choice">
  ${label}
  <select value=${value} onChange=${(event) => onChange(event.target.value)}>
    ${Object.entries(options).map(
      ([key, one]) => html`<option value=${key} selected=${key === value}>${one.label}</option>`,
    )}
  </select>
</label>`;

// Fetches a document of the API; it is fetched again when `again` changes.
export function useDocument(path, again) {
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

export function Tiles({ status }) {
  const { census, spent, rate, budget } = status;
  const perMinute = rate.individuals_per_minute;
  const left = status.seconds_left != null ? `${span(status.seconds_left)} to go` : '';
  return html`<div class="tiles">
    <${Tile}
      name="best"
      value=${percent(spent.best)}
      note=${spent.since_best ? `${several(spent.since_best, 'individual')} ago` : 'just now'}
    />
    <${Tile}
      name="individuals"
      value=${whole(spent.individuals)}
      note=${budget.individuals ? `of ${whole(budget.individuals)}` : 'trained'}
    />
    <${Tile}
      name="alive"
      value=${whole(census.alive)}
      note="${whole(census.training)} in training"
    />
    <${Tile}
      name="FLOPs"
      value=${amount(spent.flops)}
      note=${rate.flops_per_second > 0 ? `${amount(rate.flops_per_second)} per second` : ''}
    />
    <${Tile} name="time" value=${span(spent.seconds)} note=${status.over ? 'over' : left} />
    <${Tile}
      name="rate"
      value=${perMinute > 0 ? perMinute.toFixed(perMinute < 10 ? 1 : 0) : '–'}
      note="individuals per minute"
    />
  </div>`;
}

export const EmptyState = ({ text, open }) => html`<div class="blank">
  <p>${text}</p>
  <p><button onClick=${() => open('population')}>To the population</button></p>
</div>`;
