// All individuals of an experiment, in typed arrays that grow. Messages of the server update them.
const REALS = [
  'born',
  'finished',
  'fitness',
  'seconds',
  'flops',
  'parameters',
  'learning_rate',
  'elapsed',
  'spent',
];
const WHOLES = ['parent', 'mutation', 'worker', 'version', 'depth', 'rank'];

// `key` names the column of an individual, `total` the same number in records and in changes.
export const AXES = {
  time: { label: 'training time', key: 'elapsed', total: 'seconds' },
  flops: { label: 'FLOPs spent', key: 'spent', total: 'flops' },
  order: { label: 'individuals', key: 'rank', total: 'individuals' },
};

export class Population {
  constructor() {
    this.room = 0;
    this.size = 0;
    this.ids = [];
    this.rows = new Map();
    this.mutations = [''];
    this.workers = [''];
    this.cursor = '';
    this.order = new Int32Array(0);
    this.grow(1024);
  }

  grow(room) {
    const copy = (Kind, old, fill) => {
      const bigger = new Kind(room);
      if (fill !== undefined) bigger.fill(fill);
      if (old) bigger.set(old);
      return bigger;
    };
    for (const name of REALS) this[name] = copy(Float64Array, this[name], NaN);
    for (const name of WHOLES)
      this[name] = copy(Int32Array, this[name], name === 'parent' ? -1 : 0);
    this.state = copy(Uint8Array, this.state);
    this.room = room;
  }

  apply(message) {
    this.take(message);
    this.sort();
  }

  // Takes over the rows of a message; `sort` must be called before the next drawing.
  take(message) {
    const { rows } = message;
    let most = this.size;
    for (const index of rows.index) if (index >= most) most = index + 1;
    if (most > this.room) this.grow(Math.max(2 * this.room, most));
    this.size = most;
    this.mutations = message.mutations;
    this.workers = message.workers;
    this.cursor = message.cursor;
    for (let i = 0; i < rows.index.length; i++) {
      const row = rows.index[i];
      this.ids[row] = rows.id[i];
      this.rows.set(rows.id[i], row);
      this.state[row] = rows.state.charCodeAt(i);
    }
    for (const name of REALS) {
      const from = rows[name];
      const to = this[name];
      for (let i = 0; i < from.length; i++) to[rows.index[i]] = from[i] ?? NaN;
    }
    for (const name of WHOLES) {
      const from = rows[name];
      const to = this[name];
      for (let i = 0; i < from.length; i++) to[rows.index[i]] = from[i];
    }
  }

  // Sorts the finished individuals by their rank.
  sort() {
    const done = [];
    for (let row = 0; row < this.size; row++) if (!Number.isNaN(this.fitness[row])) done.push(row);
    this.order = Int32Array.from(done).sort((a, b) => this.rank[a] - this.rank[b]);
  }

  best() {
    let found = -1;
    for (let i = 0; i < this.order.length; i++) {
      const row = this.order[i];
      if (this.state[row] === 65 && (found < 0 || this.fitness[row] > this.fitness[found]))
        found = row;
    }
    return found;
  }

  ancestors(row) {
    const chain = [];
    for (let at = row; at >= 0 && chain.length <= this.size; at = this.parent[at]) chain.push(at);
    return chain;
  }

  children() {
    const first = new Int32Array(this.size).fill(-1);
    const next = new Int32Array(this.size).fill(-1);
    for (let row = this.size - 1; row >= 0; row--) {
      const parent = this.parent[row];
      if (parent >= 0) {
        next[row] = first[parent];
        first[parent] = row;
      }
    }
    return { first, next };
  }

  stateOf(row) {
    return String.fromCharCode(this.state[row]);
  }
}
