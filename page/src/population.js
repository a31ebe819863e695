// All individuals of an experiment, in typed arrays that grow. Messages of the server update them.
const REALS = ['born', 'finished', 'fitness', 'seconds', 'flops', 'parameters', 'learning_rate'];
const WHOLES = ['parent', 'mutation', 'worker', 'version', 'depth'];

export const AXES = {
  time: { label: 'training time', key: 'elapsed' },
  flops: { label: 'FLOPs spent', key: 'spent' },
  order: { label: 'individuals', key: 'rank' },
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
    for (const { key } of Object.values(AXES)) this[key] = copy(Float64Array, this[key], NaN);
    this.room = room;
  }

  apply(message) {
    this.take(message);
    this.derive();
  }

  // Takes over the rows of a message; `derive` must be called before the next drawing.
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

  // Computes the rank, the FLOPs spent and the time elapsed at the moment each individual finished.
  derive() {
    const { finished, seconds, flops, fitness, size } = this;
    const done = [];
    for (let row = 0; row < size; row++) if (!Number.isNaN(fitness[row])) done.push(row);
    const order = Int32Array.from(done);
    order.sort((a, b) => finished[a] - finished[b] || a - b);
    const count = order.length;
    const began = new Float64Array(count + 1);
    began[count] = Infinity;
    for (let i = count - 1; i >= 0; i--)
      began[i] = Math.min(began[i + 1], finished[order[i]] - seconds[order[i]]);
    let elapsed = 0;
    let spent = 0;
    let previous = -Infinity;
    for (let i = 0; i < count; i++) {
      const row = order[i];
      elapsed += Math.max(0, finished[row] - Math.max(began[i], previous));
      spent += flops[row];
      previous = finished[row];
      this.elapsed[row] = elapsed;
      this.spent[row] = spent;
      this.rank[row] = i + 1;
    }
    this.order = order;
    this.placeUnfinished();
  }

  // An individual without a result is placed where the experiment was when it was born.
  placeUnfinished() {
    for (let row = 0; row < this.size; row++) {
      if (!Number.isNaN(this.fitness[row])) continue;
      for (const { key } of Object.values(AXES)) this[key][row] = this.at(key, this.born[row]);
    }
  }

  // Converts a moment on the wall clock to a position on an axis.
  at(key, moment) {
    let low = 0;
    let high = this.order.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.finished[this.order[middle]] <= moment) low = middle + 1;
      else high = middle;
    }
    return low ? this[key][this.order[low - 1]] : 0;
  }

  // Returns the best fitness so far as a step curve: each point where it rises, and its end.
  records(key) {
    const xs = [];
    const ys = [];
    let best = -Infinity;
    const { order, fitness } = this;
    for (let i = 0; i < order.length; i++) {
      const row = order[i];
      if (fitness[row] > best || i === order.length - 1) {
        best = Math.max(best, fitness[row]);
        xs.push(this[key][row]);
        ys.push(best);
      }
    }
    return [xs, ys];
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
