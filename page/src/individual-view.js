// The view of one individual: its network, its numbers and its training.
import { useMemo, useState } from 'preact/hooks';
import { isExport } from './api.js';
import { Chart } from './chart.js';
import { palette } from './colours.js';
import { Diagram, nameOf, titleOf } from './diagram.js';
import { html } from './html.js';
import { Facts, EmptyState, useDocument } from './components.js';
import { STATES, amount, clock, percent, rate, shape, short, span, whole } from './format.js';

export function IndividualView({ base, id, population, version, theme, open }) {
  const state = population.rows.has(id) ? population.stateOf(population.rows.get(id)) : '';
  const { value: one, error } = useDocument(id && `${base}/individuals/${id}`, state);
  const { value: line } = useDocument(id && `${base}/lineage/${id}`, state);
  const [copied, setCopied] = useState(false);
  const colours = palette();
  const losses = useMemo(
    () =>
      one?.losses?.length
        ? [one.losses.map(([step]) => step), one.losses.map(([, loss]) => loss)]
        : [[], []],
    [one],
  );
  const rates = useMemo(
    () =>
      line
        ? [line.ancestors.map((_, i) => i), line.ancestors.map((a) => a.learning_rate ?? null)]
        : [[], []],
    [line],
  );
  const children = useMemo(() => {
    const row = population.rows.get(id);
    const found = [];
    if (row === undefined) return found;
    for (let i = 0; i < population.size; i++) if (population.parent[i] === row) found.push(i);
    return found;
  }, [id, version]);
  if (!id) {
    const text = 'No individual is chosen: click a dot, or press b for the best one.';
    return html`<${EmptyState} text=${text} open=${open} />`;
  }
  if (error) return html`<${EmptyState} text=${error} open=${open} />`;
  if (!one) return html`<p class="faint pad">Reading ${id} …</p>`;
  const dna = JSON.stringify(one.dna, null, 2);
  const copy = async () => {
    await copyText(dna);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  const reason = one.reason ? `: ${one.reason}` : '';
  return html`<section class="individual" data-id=${one.id}>
    <header>
      <h2>
        ${percent(one.fitness, 2)} <span class="faint">${STATES[one.state]}${reason}</span>
      </h2>
      <p><code>${one.id}</code> <span class="faint">${one.network}</span></p>
      <p class="buttons">
        <button onClick=${() => open('lineage', one.id)}>Lineage</button>
        <button class="copy" onClick=${copy}>${copied ? 'Copied' : 'Copy DNA'}</button>
        <a
          class="button"
          download="${one.id}.dna.json"
          href=${
            isExport
              ? `data:application/json,${encodeURIComponent(dna)}`
              : `${base}/individuals/${one.id}/dna`
          }
        >Download DNA</a>
        ${
          one.has_weights &&
          !isExport &&
          html`<a class="button" download href="${base}/individuals/${one.id}/model">
            Download model
          </a>`
        }
      </p>
    </header>
    ${one.trouble && html`<p class="trouble">${one.trouble}</p>`}
    <div class="columns">
      <div class="drawing">
        <${Diagram}
          layers=${one.layers}
          classes=${one.classes}
          title="The architecture of ${one.id}"
        />
        <p class="faint small-text">
          Width: the activation's size. <span class="swatch strided"></span> strided,${' '}
          <span class="swatch fresh"></span> newly initialised weights,${' '}
          <span class="swatch pool"></span> without weights,${' '}
          ${one.trouble && html`<span class="swatch unknown"></span> ? of an unknown kind, `}
          arcs: skips, <span class="swatch arc"></span> with a layer.
        </p>
      </div>
      <div class="facts-and-curves">
        <${Facts} facts=${factsOf(one, children, population, open)} />
        <h3>Training loss</h3>
        <${Chart}
          data=${losses}
          series=${[{ label: 'loss', colour: colours.alive, points: losses[0].length < 4 }]}
          x=${{ label: 'step', values: amount }}
          theme=${theme}
          height=${180}
          label="Training loss by step"
        />
        ${
          rates[0].length > 1 &&
          html`<h3>Learning rate along the lineage</h3>
            <${Chart}
              data=${rates}
              log=${true}
              series=${[{ label: 'learning rate', colour: colours.record, points: true }]}
              x=${{ label: 'generation', values: (v) => (Number.isInteger(v) ? v : '') }}
              y=${{ values: rate }}
              theme=${theme}
              height=${160}
              label="Learning rate by generation"
            />`
        }
      </div>
    </div>
    <h3>Edges</h3>
    <${Edges} individual=${one} />
  </section>`;
}

function factsOf(one, children, population, open) {
  const link = (id, text) => html`<a href=${open.address('individual', id)}>${text}</a> `;
  const childLinks = children
    .slice(0, 12)
    .map((row) => link(population.ids[row], percent(population.fitness[row])));
  const more = children.length > 12 && `and ${children.length - 12} more`;
  return [
    ['made by', one.mutations.join(' + ') || 'from nothing'],
    ['parents', one.parents.length ? one.parents.map((id) => link(id, short(id))) : 'none'],
    ['children', children.length ? html`${childLinks}${more}` : 'none'],
    ['accuracy', one.accuracy !== one.fitness ? percent(one.accuracy, 2) : ''],
    ['parameters', whole(one.parameters)],
    [
      'FLOPs',
      `${amount(one.flops)} in total; ${amount(one.flops_training)} per step, ` +
        `${amount(one.flops_forward)} per validation batch`,
    ],
    ['training', `${whole(one.steps)} steps in ${span(one.seconds)}`],
    ['learning rate', rate(one.learning_rate)],
    [
      'weights',
      one.inherited.length + one.fresh.length
        ? `${one.inherited.length} tensors inherited, ${one.fresh.length} newly initialised`
        : '',
    ],
    ['born', `${clock(one.born)}, settings version ${one.settings_version}`],
    ['trained by', `${one.worker}${one.attempt > 1 ? `, attempt ${one.attempt}` : ''}`],
  ];
}

function Edges({ individual }) {
  const kind = (edge) => {
    if (!edge.computes) return edge.backbone ? edge.title : 'skip';
    return titleOf(edge);
  };
  const weights = (edge) => {
    if (!edge.has_weights) return '';
    if (edge.fresh) return 'new';
    return individual.inherited.length ? 'inherited' : '';
  };
  const row = (layer, i, edge) => html`<tr class=${edge.backbone ? '' : 'skip'}>
    <td>${i} ${nameOf(layer, i)}</td>
    <td><code>${edge.edge}</code></td>
    <td>${edge.from}</td>
    <td>${kind(edge)}</td>
    <td>${shape(layer.shape)}</td>
    <td class="n">${whole(edge.parameters)}</td>
    <td class="n">${amount(edge.flops)}</td>
    <td>${weights(edge)}</td>
  </tr>`;
  return html`<div class="scroll">
    <table>
      <thead>
        <tr>
          <th>to</th><th>edge</th><th>from</th><th>kind</th><th>output</th>
          <th class="n">parameters</th><th class="n">FLOPs per image</th><th>weights</th>
        </tr>
      </thead>
      <tbody>
        ${individual.layers.flatMap((layer, i) => layer.edges.map((edge) => row(layer, i, edge)))}
      </tbody>
    </table>
  </div>`;
}

// Browsers offer no clipboard on insecure addresses, where only the deprecated command works.
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
