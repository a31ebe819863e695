// The view that changes an experiment; it needs the token.
import { useState } from 'preact/hooks';
import { post } from './api.js';
import { html } from './html.js';
import { Facts } from './components.js';

export function ControlView({ base, status, token, onToken, allowed }) {
  const [said, setSaid] = useState(null);
  const [entered, setEntered] = useState('');
  const [name, setName] = useState('mutations');
  const [text, setText] = useState('');
  const [burst, setBurst] = useState({ mutations: 5, lasts: '100' });
  const [sure, setSure] = useState('');
  const [answered, setAnswered] = useState({ settings_version: 0 });
  if (!allowed)
    return html`<div class="blank"><p>This dashboard only shows. Started with <code>--control</code>, it prints an address with a token for those who may change things.</p></div>`;
  if (!token) {
    return html`<form class="blank" onSubmit=${(event) => {
      event.preventDefault();
      onToken(entered.trim());
    }}>
      ${said ? html`<p class="trouble" role="status">${said.text}</p>` : html`<p>Changing an experiment needs the token that was printed when the dashboard was started.</p>`}
      <p><label>token <input name="token" autocomplete="off" value=${entered} onInput=${(event) => setEntered(event.target.value)} /></label> <button class="primary">Use it</button></p></form>`;
  }
  const send = async (body, done) => {
    setSure('');
    try {
      const answer = await post(`${base}/control`, body, token);
      setAnswered(answer);
      setSaid({
        good: true,
        text: `${done} Settings version ${answer.settings_version} is in force from each worker's next step on.`,
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
  const value = settings[name];
  return html`<section class="control">
    ${said && html`<p class=${said.good ? 'done' : 'trouble'} role="status">${said.text}</p>`}
    <h3>Change a setting</h3>
    <form onSubmit=${(event) => {
      event.preventDefault();
      send({ set: { [name]: text } }, `${name} is ${text} now.`);
    }}>
      <select name="setting" aria-label="setting" value=${name} onChange=${(event) => {
        setName(event.target.value);
        setText('');
      }}>${tunable.map((key) => html`<option value=${key} selected=${key === name}>${key}</option>`)}</select>
      <input name="value" aria-label="new value" placeholder=${typeof value === 'object' ? JSON.stringify(value) : String(value)} value=${text} onInput=${(event) => setText(event.target.value)} />
      <button class="primary" disabled=${!text}>Change</button></form>
    <h3>Help it out of a local optimum</h3>
    <form onSubmit=${(event) => {
      event.preventDefault();
      send(
        { mutations: Number(burst.mutations), lasts: burst.lasts },
        'More mutations for a while.',
      );
    }}>
      <label><input type="number" min="1" max="1000" value=${burst.mutations} onInput=${(event) => setBurst({ ...burst, mutations: event.target.value })} aria-label="mutations" /> mutations at each reproduction</label>
      <label> for <input value=${burst.lasts} onInput=${(event) => setBurst({ ...burst, lasts: event.target.value })} aria-label="how long" size="6" /> individuals (or a time: 10m)</label>
      <button>Raise the rate</button></form>
    <p><button class=${sure === 'reset' ? 'danger' : ''} onClick=${() => (sure === 'reset' ? send({ reset_weights: true }, 'All weights are reset.') : setSure('reset'))}>${sure === 'reset' ? 'Really reset everybody’s weights?' : 'Reset all weights'}</button>
      <span class="faint">Everybody must earn its fitness again; the best network goes as well.</span></p>
    <h3>Stop</h3>
    <p><button class="danger" onClick=${() => (sure === 'stop' ? send({ stop: true }, 'Workers hand over what they train and end.') : setSure('stop'))}>${sure === 'stop' ? 'Really stop all workers?' : 'Stop the experiment'}</button>
      <span class="faint">Workers hand over what they train and end; nothing is lost. To go on, raise <code>individuals</code> (0: no limit) and start <code>genepool run</code>.</span></p>
    <details><summary>Settings in force (version ${settings_version})</summary><${Facts} facts=${Object.entries(settings).map(([key, one]) => [key, html`<code>${typeof one === 'object' ? JSON.stringify(one) : String(one) || '–'}</code>`])} /></details>
  </section>`;
}
