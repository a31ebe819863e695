// The only door to the data: the JSON API, or the same documents inside an exported file.
const embedded = document.getElementById('documents');
const documents = embedded ? JSON.parse(embedded.textContent) : null;

export const isExport = documents !== null;

export class Refusal extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

export async function get(path) {
  if (documents) {
    if (path in documents) return documents[path];
    throw new Refusal(404, 'This is not in the exported file; `genepool dashboard` shows it.');
  }
  return answer(await ask(path, { headers: { accept: 'application/json' } }));
}

export async function order(path, body, token) {
  return answer(
    await ask(path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
      body: JSON.stringify(body),
    }),
  );
}

async function ask(path, options) {
  try {
    return await fetch(path, options);
  } catch {
    throw new Refusal(0, 'The dashboard does not answer.');
  }
}

async function answer(response) {
  let body;
  try {
    body = await response.json();
  } catch {
    throw new Refusal(response.status, 'The dashboard gave no answer that can be read.');
  }
  if (!response.ok) throw new Refusal(response.status, body.error || 'The dashboard refused.');
  return body;
}

// Live changes. The browser reconnects by itself and says how far it was, so only what was missed comes again.
export function follow(key, cursor, listeners) {
  if (documents) return () => {};
  const source = new EventSource(
    `/api/experiments/${key}/events?since=${encodeURIComponent(cursor)}`,
  );
  for (const name of ['rows', 'standing', 'reset']) {
    source.addEventListener(name, (event) => listeners[name](JSON.parse(event.data)));
  }
  source.onopen = () => listeners.connected(true);
  source.onerror = () => {
    listeners.connected(false);
    if (source.readyState === EventSource.CLOSED) listeners.refused(); // then the browser does not try again by itself
  };
  return () => source.close();
}
