// The page reads all its data here: from the JSON API, or from the documents in an exported file.
const embedded = document.getElementById('documents');
const documents = embedded ? JSON.parse(embedded.textContent) : null;

export const isExport = documents !== null;

class ApiError extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

export async function get(path) {
  if (documents) {
    if (path in documents) return documents[path];
    throw new ApiError(404, 'This is not in the exported file; `genepool dashboard` shows it.');
  }
  return answer(await ask(path, { headers: { accept: 'application/json' } }));
}

export async function post(path, body, token) {
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
    throw new ApiError(0, 'The dashboard does not answer.');
  }
}

async function answer(response) {
  let body;
  try {
    body = await response.json();
  } catch {
    throw new ApiError(response.status, 'The answer of the dashboard cannot be read.');
  }
  if (!response.ok)
    throw new ApiError(response.status, body.error || 'The dashboard refused the request.');
  return body;
}

// Listens for live changes. The browser reconnects by itself and sends its last position, so the
// server repeats only what was missed.
export function follow(key, cursor, listeners) {
  if (documents) return () => {};
  const source = new EventSource(
    `/api/experiments/${key}/events?since=${encodeURIComponent(cursor)}`,
  );
  for (const name of ['rows', 'status', 'reset']) {
    source.addEventListener(name, (event) => listeners[name](JSON.parse(event.data)));
  }
  source.onopen = () => listeners.connected(true);
  source.onerror = () => {
    listeners.connected(false);
    // A closed source is not retried by the browser.
    if (source.readyState === EventSource.CLOSED) listeners.refused();
  };
  return () => source.close();
}
