// The view that changes an experiment; it needs the token.
import { useState } from 'preact/hooks';
import { post } from './api.js';
import { html } from './html.js';
import { Facts } from './components.js';

export function ControlView({ base, status, token, onToken, allowed }) {
  const [said, setSaid] = useState(null);
  const [entered, setEntered] = useState('');
  const [name, setName] = useState('breeding.mutations');
  const [text, setText] = useState('');
  const [burst, setBurst] = useState({ mutations: 5, lasts: '100' });
  const [sure, setSure] = useState('');
  const [answered, setAnswered] = useState({ settings_version: 0 });
  if (!allowed) {
    return html`<div class="blank">
      <p>
        This dashboard is read-only. When it is started with <code>--control</code>, it prints an
        address with a token that allows changes.
      </p>
    </div>`;
  }
  if (!token) {
    const use = (event) => {
      event.preventDefault();
      onToken(entered.trim());
    };
    return html`<form class="blank" onSubmit=${use}>
      ${
        said
          ? html`<p class="trouble" role="status">${said.text}</p>`
          : html`<p>
              Changing an experiment needs the token that was printed when the dashboard was
              started.
            </p>`
      }
      <p>
        <label>token <input
          name="token"
          autocomplete="off"
          value=${entered}
          onInput=${(event) => setEntered(event.target.value)}
        /></label> <button class="primary">Use it</button>
      </p>
    </form>`;
  }
  const send = async (body, done) => {
    setSure('');
    try {
      const answer = await post(`${base}/control`, body, token);
      setAnswered(answer);
      setSaid({
        good: true,
        text:
          `${done} Settings version ${answer.settings_version} is in force ` +
          "from each worker's next step on.",
      });
    } catch (error) {
      if (error.status === 401) onToken('');
      setSaid({ good: false, text: error.message });
    }
  };
  // An answer can be newer than the latest status of the live feed.
  const { settings, settings_version } =
    answered.settings_version > status.settings_version ? answered : status;
  const tunable = Object.keys(settings).filter((key) => !status.fixed.includes(key));
  const choose = (event) => {
    setName(event.target.value);
    setText('');
  };
  const change = (event) => {
    event.preventDefault();
    send({ set: { [name]: text } }, `${name} is ${text} now.`);
  };
  const raise = (event) => {
    event.preventDefault();
    const body = { mutations: Number(burst.mutations), lasts: burst.lasts };
    send(body, 'More mutations for a while.');
  };
  // These two need a second click.
  const reset = () =>
    sure === 'reset' ? send({ reset_weights: true }, 'All weights are reset.') : setSure('reset');
  const stop = () =>
    sure === 'stop'
      ? send({ stop: true }, 'Workers hand over the individuals in training and exit.')
      : setSure('stop');
  return html`<section class="control">
    ${said && html`<p class=${said.good ? 'done' : 'trouble'} role="status">${said.text}</p>`}
    <h3>Change a setting</h3>
    <form onSubmit=${change}>
      <select name="setting" aria-label="setting" value=${name} onChange=${choose}>
        ${tunable.map((key) => html`<option value=${key} selected=${key === name}>${key}</option>`)}
      </select>
      <input
        name="value"
        aria-label="new value"
        placeholder=${shownValue(settings[name])}
        value=${text}
        onInput=${(event) => setText(event.target.value)}
      />
      <button class="primary" disabled=${!text}>Change</button>
    </form>
    <h3>Help it out of a local optimum</h3>
    <form onSubmit=${raise}>
      <label><input
        type="number"
        min="1"
        max="1000"
        value=${burst.mutations}
        onInput=${(event) => setBurst({ ...burst, mutations: event.target.value })}
        aria-label="mutations"
      /> mutations at each reproduction</label>
      <label> for <input
        value=${burst.lasts}
        onInput=${(event) => setBurst({ ...burst, lasts: event.target.value })}
        aria-label="how long"
        size="6"
      /> individuals (or a time: 10m)</label>
      <button>Raise the rate</button>
    </form>
    <p>
      <button class=${sure === 'reset' ? 'danger' : ''} onClick=${reset}>
        ${sure === 'reset' ? 'Really reset all weights?' : 'Reset all weights'}
      </button>
      <span class="faint">
        Every individual must earn its fitness again; the best network is lost as well.
      </span>
    </p>
    <h3>Stop</h3>
    <p>
      <button class="danger" onClick=${stop}>
        ${sure === 'stop' ? 'Really stop all workers?' : 'Stop the experiment'}
      </button>
      <span class="faint">
        Workers hand over the individuals in training and exit; nothing is lost. To continue,
        raise <code>budget.individuals</code> (none: no limit) and start <code>genepool run</code>.
      </span>
    </p>
    <details>
      <summary>Settings in force (version ${settings_version})</summary>
      <${Facts}
        facts=${Object.entries(settings).map(([key, one]) => [
          key,
          html`<code>${shownValue(one) || '–'}</code>`,
        ])}
      />
    </details>
  </section>`;
}

const shownValue = (value) => {
  if (value === null) return 'none';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
};
