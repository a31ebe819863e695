// The page: it chooses the experiment and the view, and the live feed keeps them up to date.
import { render } from 'preact';
import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { follow, get, isExport } from './api.js';
import { CompareView } from './compare-view.js';
import { ControlView } from './control-view.js';
import { BudgetView } from './budget-view.js';
import { html } from './html.js';
import { IndividualView } from './individual-view.js';
import { LineageView } from './lineage-view.js';
import { PopulationView } from './population-view.js';
import { Population } from './population.js';
import { clock, span } from './format.js';

const VIEWS = {
  population: 'Population',
  individual: 'Individual',
  lineage: 'Lineage',
  budget: 'Budget and workers',
  compare: 'Compare',
  control: 'Control',
};
// These views show individuals, so their addresses keep the chosen one.
const INDIVIDUAL_VIEWS = ['population', 'individual', 'lineage'];
const STATE_LABELS = {
  running: 'running',
  finished: 'finished',
  unreadable: 'cannot be read',
  empty: 'empty',
  reading: 'reading',
  idle: 'no active worker',
};

// The pause between two redraws is this many times as long as the last redraw took.
const SHARE = 40;
// The list of experiments is fetched at these intervals, in milliseconds.
const [SOON, LATER] = [3000, 15000];

// The address has the form #/view/experiment/individual.
function where() {
  const [, view = 'population', key = '', id = ''] = location.hash.split('/');
  return { view: view in VIEWS ? view : 'population', key, id };
}

// The token follows the '#', which browsers never send; it is removed from the address at once.
function takeToken() {
  const found = location.hash.match(/^#token=([\w-]+)/);
  if (found) {
    sessionStorage.setItem('genepool-token', found[1]);
    history.replaceState(null, '', location.pathname);
  }
  try {
    return sessionStorage.getItem('genepool-token') || '';
  } catch {
    return '';
  }
}

// Limits how often `work` is called, so that it takes only a small share of the time. It is not
// called while the page is hidden.
function paced(work) {
  let timer = 0;
  let next = 0;
  const run = () => {
    timer = 0;
    if (document.hidden) {
      document.addEventListener('visibilitychange', ask, { once: true });
      return;
    }
    const began = performance.now();
    work();
    // The time includes painting, because the browser's own part is the larger one.
    requestAnimationFrame(() =>
      setTimeout(() => {
        next = performance.now() + SHARE * (performance.now() - began);
      }),
    );
  };
  const ask = () => {
    timer ||= setTimeout(run, Math.max(0, next - performance.now()));
  };
  return ask;
}

function useExperiment(key) {
  const [state, setState] = useState({
    population: null,
    version: 0,
    status: null,
    connected: true,
    error: '',
  });
  useEffect(() => {
    if (!key) return undefined;
    let stop = () => {};
    let wanted = true;
    const begin = async () => {
      try {
        const population = new Population();
        const [status, rows] = await Promise.all([
          get(`/api/experiments/${key}`),
          get(`/api/experiments/${key}/individuals`),
        ]);
        if (!wanted) return;
        population.apply(rows);
        setState({ key, population, version: 1, status, connected: true, error: '' });
        const draw = paced(() => {
          population.sort();
          if (wanted) setState((known) => ({ ...known, version: known.version + 1 }));
        });
        stop = follow(key, rows.cursor, {
          rows: (message) => {
            population.take(message);
            draw();
          },
          status: (message) => setState((known) => ({ ...known, status: message })),
          reset: () => {
            stop();
            if (wanted) begin();
          },
          refused: () => setTimeout(() => wanted && begin(), 3000),
          connected: (connected) =>
            setState((known) => (known.connected === connected ? known : { ...known, connected })),
        });
      } catch (error) {
        if (!wanted) return;
        setState({
          key,
          population: null,
          version: 0,
          status: null,
          connected: true,
          error: error.message,
        });
        setTimeout(() => wanted && begin(), 3000);
      }
    };
    begin();
    return () => {
      wanted = false;
      stop();
    };
  }, [key]);
  return state.key === key
    ? state
    : { population: null, version: 0, status: null, connected: true, error: '' };
}

function Page() {
  const [place, setPlace] = useState(where);
  const [about, setAbout] = useState(null);
  const [experiments, setExperiments] = useState(null);
  const [trouble, setTrouble] = useState('');
  const [token, setToken] = useState(takeToken);
  const [theme, setTheme] = useState(() => localStorage.getItem('genepool-theme') || '');
  const [system, setSystem] = useState(0);
  useEffect(() => {
    const moved = () => setPlace(where());
    addEventListener('hashchange', moved);
    const preference = matchMedia('(prefers-color-scheme: dark)');
    const changed = () => setSystem((n) => n + 1);
    preference.addEventListener('change', changed);
    return () => {
      removeEventListener('hashchange', moved);
      preference.removeEventListener('change', changed);
    };
  }, []);
  document.documentElement.dataset.theme = theme;
  useEffect(() => {
    let timer = 0;
    const look = () =>
      Promise.all([get('/api'), get('/api/experiments')])
        .then(
          ([first, second]) => {
            setAbout(first);
            setExperiments(second.experiments);
            setTrouble('');
            return second.experiments.length ? LATER : SOON;
          },
          () => {
            setTrouble(
              'The dashboard does not answer; is `genepool dashboard` still running? ' +
                'This page continues by itself when it is back.',
            );
            return SOON;
          },
        )
        .then((wait) => {
          if (!isExport) timer = setTimeout(look, wait);
        });
    look();
    return () => clearTimeout(timer);
  }, []);
  useEffect(
    () =>
      document
        .querySelector('nav [aria-current]')
        ?.scrollIntoView({ inline: 'center', block: 'nearest' }),
    [place.view],
  );
  const key =
    place.key || experiments?.find((one) => !one.trouble)?.key || experiments?.[0]?.key || '';
  const { population, version, status, connected, error } = useExperiment(key);
  const open = useMemo(() => {
    const address = (view, id = '', other = key) => `#/${view}/${other}${id ? `/${id}` : ''}`;
    return Object.assign(
      (view, id) => {
        location.hash = address(view, id);
      },
      { address },
    );
  }, [key]);
  const selected = place.id && population?.rows.has(place.id) ? population.rows.get(place.id) : -1;
  const select = useRef();
  select.current = (row, opened) => {
    const id = row >= 0 ? population.ids[row] : '';
    location.hash = open.address(opened ? 'individual' : 'population', id);
  };
  const onSelect = useCallback((row, opened) => select.current(row, opened), []);
  const keep = (value) => {
    sessionStorage.setItem('genepool-token', value);
    setToken(value);
  };
  const paint = `${theme} ${system}`;
  const base = `/api/experiments/${key}`;
  const state = status?.state;
  const tabs = Object.entries(VIEWS).filter(([view]) => !(isExport && view === 'control'));
  const body = () => {
    if (place.view === 'compare' && experiments?.length) {
      return html`<${CompareView}
        experiments=${experiments}
        current=${key}
        theme=${paint}
        open=${open}
      />`;
    }
    if (!experiments) return html`<div class="blank"><p>${trouble || 'Loading …'}</p></div>`;
    if (!experiments.length) {
      return html`<div class="blank">
        <h2>No experiment here yet</h2>
        <p>
          There is none in <b>${about?.name}</b> or the folders below it.${' '}
          <code>genepool run</code> creates one; it appears here by itself.
        </p>
      </div>`;
    }
    if (error) {
      return html`<div class="blank"><h2>The experiment cannot be read</h2><p>${error}</p></div>`;
    }
    if (!population || !status) return html`<div class="blank"><p>Reading …</p></div>`;
    if (!population.size && INDIVIDUAL_VIEWS.includes(place.view)) {
      return state === 'unreadable'
        ? html`<div class="blank">
            <h2>The directory cannot be read</h2>
            <p>${status.trouble}</p>
          </div>`
        : html`<div class="blank">
            <h2>No individuals yet</h2>
            <p>
              The experiment was created ${clock(status.created)}; its first networks appear as soon
              as a worker starts: <code>genepool run</code> or <code>genepool worker</code>.
            </p>
          </div>`;
    }
    const common = { population, version, status, base, theme: paint, open };
    if (place.view === 'individual') {
      const best = population.best();
      const id = place.id || (best >= 0 ? population.ids[best] : '');
      return html`<${IndividualView} ...${common} id=${id} />`;
    }
    if (place.view === 'lineage') return html`<${LineageView} ...${common} id=${place.id} />`;
    if (place.view === 'budget') return html`<${BudgetView} ...${common} />`;
    if (place.view === 'control') {
      return html`<${ControlView}
        base=${base}
        status=${status}
        allowed=${about?.control}
        token=${token}
        onToken=${keep}
      />`;
    }
    return html`<${PopulationView} ...${common} selected=${selected} onSelect=${onSelect} />`;
  };
  const change = (event) => {
    const view = place.view === 'compare' ? 'population' : place.view;
    location.hash = open.address(view, '', event.target.value);
  };
  const toggleTheme = () => {
    const dark = theme ? theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    localStorage.setItem('genepool-theme', dark ? 'light' : 'dark');
    setTheme(dark ? 'light' : 'dark');
  };
  const tab = ([view, name]) => html`<a
    href=${open.address(view, INDIVIDUAL_VIEWS.includes(view) ? place.id : '')}
    aria-current=${place.view === view ? 'page' : undefined}
  >${name}</a>`;
  return html`<header class="top">
      <a class="logo" href=${open.address('population')}>genepool</a>
      ${
        experiments?.length > 1
          ? html`<select class="which" aria-label="experiment" value=${key} onChange=${change}>
              ${experiments.map(
                (one) => html`<option value=${one.key} selected=${one.key === key}>
                  ${one.name}${one.trouble ? ' (broken)' : ''}
                </option>`,
              )}
            </select>`
          : html`<b class="which">${experiments?.[0]?.name}</b>`
      }
      ${
        status &&
        html`<span class="pill ${isExport ? '' : state}" title=${status.over || ''}>
          ${stateText(status)}
        </span>`
      }
      ${!connected && html`<span class="pill unreadable">connection lost, trying again</span>`}
      <span class="grow"></span>
      <button
        class="theme"
        aria-label="light or dark"
        title="light or dark"
        onClick=${toggleTheme}
      >◐</button>
    </header>
    <nav>${tabs.map(tab)}</nav>
    ${trouble && experiments && html`<p class="trouble banner" role="alert">${trouble}</p>`}
    <${Banners} status=${status} size=${population?.size} />
    <main>${body()}</main>`;
}

function stateText(status) {
  if (isExport) return `as of ${clock(status.seen_at)}`;
  return status.final_phase ? 'training the best' : STATE_LABELS[status.state] || status.state;
}

function Banners({ status, size }) {
  if (!status) return null;
  const { state, over, now, seen_at } = status;
  return html`${
    state === 'unreadable' &&
    size > 0 &&
    html`<p class="trouble banner" role="alert">
        ${status.trouble} The page shows what was read ${
          seen_at ? `${span(now - seen_at)} ago` : 'before'
        }.
      </p>`
  }
    ${
      status.reading &&
      html`<p class="banner faint">
        Still reading: ${size?.toLocaleString('en')} individuals so far.
      </p>`
    }
    ${
      state === 'finished' &&
      !isExport &&
      html`<p class="banner finished">
        Finished: ${over}. Continue with <code>genepool best</code>,${' '}
        <code>genepool export</code> or <code>genepool predict</code>.
      </p>`
    }`;
}

render(html`<${Page} />`, document.getElementById('page'));
