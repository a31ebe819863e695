// The scatter plot of all individuals. uPlot draws the axes, the scales and the step curve; the
// dots are written to a pixel buffer, so that 100,000 of them are redrawn in milliseconds.
import uPlot from 'uplot';
import { palette } from './colours.js';
import { clipped, discOf } from './discs.js';
import { listenKeys, listenPointers } from './interaction.js';
import { AXES } from './population.js';
import { INCREMENTS, amount, percent, ticks } from './format.js';

const TRAINING = 84;
const ALIVE = 65;
const CELL = 24;

const AXIS_VALUES = {
  time: ticks,
  flops: (values) => values.map(amount),
  order: (values) => values.map((value) => (Number.isInteger(value) ? amount(value) : '')),
};

export class ScatterPlot {
  constructor(root, { onHover, onSelect, onView }) {
    Object.assign(this, { root, onHover, onSelect, onView });
    this.axis = 'time';
    this.view = null; // While this is null, the view always includes all individuals.
    this.selected = -1;
    this.changes = [];
    this.frames = { count: 0, milliseconds: 0 }; // This describes the latest redraw.
    this.ring = document.createElement('div');
    this.ring.className = 'ring';
    this.ring.hidden = true;
    this.hovered = -1;
    this.buffer = document.createElement('canvas');
    this.resize = new ResizeObserver(() => this.fit());
    this.resize.observe(root);
    listenKeys(this);
  }

  destroy() {
    this.resize.disconnect();
    this.plot?.destroy();
    this.plot = null;
  }

  // -- Contents --

  show(population, { axis, mode, colours, selected, changes, records }) {
    const other = axis !== this.axis || !this.plot;
    if (axis !== this.axis) this.view = null;
    Object.assign(this, { population, axis, mode, colours, selected, changes });
    this.xs = population[AXES[axis].key];
    this.steps = [records[AXES[axis].total], records.best];
    this.grid = null;
    if (other) this.build();
    else {
      this.plot.setData(this.steps, false);
      this.rescale();
    }
  }

  restyle() {
    this.build();
  }

  build() {
    this.plot?.destroy();
    if (!this.population) return;
    const theme = palette();
    const { width, height } = this.room();
    const axis = {
      stroke: theme.faint,
      grid: { stroke: theme.line, width: 1 },
      ticks: { stroke: theme.line, width: 1 },
      font: '12px system-ui',
    };
    const plain = { auto: false, range: (plot, low, high) => [low, high] };
    const extent = this.extent();
    this.plot = new uPlot(
      {
        width,
        height,
        legend: { show: false },
        cursor: {
          drag: { x: false, y: false, setScale: false },
          points: { show: false },
          x: false,
          y: false,
        },
        scales: {
          x: { time: false, ...plain, min: extent.x0, max: extent.x1 },
          y: { ...plain, min: extent.y0, max: extent.y1 },
        },
        axes: [
          {
            ...axis,
            ...(this.axis === 'time' ? { incrs: INCREMENTS } : {}),
            values: (plot, values) => AXIS_VALUES[this.axis](values),
            label: AXES[this.axis].label,
            size: 34,
            labelSize: 20,
            labelFont: '12px system-ui',
            space: 70,
          },
          {
            ...axis,
            values: (plot, values) =>
              values.map((value) =>
                value < 0 ? '' : percent(value, values[1] - values[0] < 0.0099 ? 1 : 0),
              ),
            size: 54,
            label: 'fitness',
            labelSize: 18,
            labelFont: '12px system-ui',
          },
        ],
        series: [
          {},
          {
            stroke: theme.record,
            width: 2,
            paths: uPlot.paths.stepped({ align: 1 }),
            points: { show: false },
          },
        ],
        hooks: {
          drawAxes: [() => this.drawDots()],
          draw: [() => this.drawChanges(), () => this.drawChosen()],
        },
      },
      this.steps,
      this.root,
    );
    this.plot.over.append(this.ring);
    listenPointers(this);
    this.rescale();
  }

  room() {
    return {
      width: Math.max(200, this.root.clientWidth),
      height: Math.max(200, this.root.clientHeight),
    };
  }

  fit() {
    if (this.plot) this.plot.setSize(this.room());
    else if (this.population) this.build();
  }

  // -- Visible range --

  extent() {
    const { population, xs } = this;
    let low = Infinity;
    let high = 0;
    let right = 0;
    for (let row = 0; row < population.size; row++) {
      if (xs[row] > right) right = xs[row];
      const y = population.fitness[row];
      if (y < low) low = y;
      if (y > high) high = y;
    }
    if (low > high) [low, high] = [0, 1];
    const margin = Math.max(0.02, 0.06 * (high - low));
    return {
      x0: -0.015 * (right || 1),
      x1: 1.015 * (right || 1),
      y0: low - margin < 0.12 ? -0.012 : low - margin,
      y1: high + margin,
    };
  }

  rescale() {
    const { x0, x1, y0, y1 } = this.view || this.extent();
    this.plot.batch(() => {
      this.plot.setScale('x', { min: x0, max: x1 });
      this.plot.setScale('y', { min: y0, max: y1 });
    });
    this.onView(this.view !== null);
  }

  look(view) {
    this.view = view;
    this.hover(-1);
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      if (this.plot) this.rescale();
    });
  }

  // Zooms around a point of the plot (0 to 1 in both directions, from the lower left).
  zoom(factor, px = 0.5, py = 0.5) {
    const { x0, x1, y0, y1 } = this.view || this.extent();
    const everything = this.extent();
    const wide = Math.min(factor * (x1 - x0), 4 * (everything.x1 - everything.x0));
    const high = Math.min(factor * (y1 - y0), 4 * (everything.y1 - everything.y0));
    if (wide < 1e-6 * (everything.x1 - everything.x0) || high < 1e-6) return;
    const [cx, cy] = [x0 + px * (x1 - x0), y0 + py * (y1 - y0)];
    this.look({
      x0: cx - px * wide,
      x1: cx + (1 - px) * wide,
      y0: cy - py * high,
      y1: cy + (1 - py) * high,
    });
  }

  pan(dx, dy) {
    const { x0, x1, y0, y1 } = this.view || this.extent();
    const [mx, my] = [dx * (x1 - x0), dy * (y1 - y0)];
    this.look({ x0: x0 + mx, x1: x1 + mx, y0: y0 + my, y1: y1 + my });
  }

  // -- Drawing --

  radius() {
    const count = this.population.order.length;
    const points =
      count < 300 ? 4.5 : count < 2000 ? 3.2 : count < 10000 ? 2.4 : count < 50000 ? 1.7 : 1.2;
    const { x0, x1 } = this.view || this.extent();
    const everything = this.extent();
    const nearer = Math.min(
      1.8,
      Math.max(1, Math.log10((everything.x1 - everything.x0) / (x1 - x0)) + 1),
    );
    return Math.max(1, Math.round(points * nearer * devicePixelRatio));
  }

  drawDots() {
    const started = performance.now();
    const { plot, population, xs, colours } = this;
    const { left, top, width, height } = plot.bbox;
    const [wide, high] = [Math.round(width), Math.round(height)];
    if (wide < 1 || high < 1) return;
    if (this.buffer.width !== wide || this.buffer.height !== high) {
      this.buffer.width = wide;
      this.buffer.height = high;
      this.pixels = null;
    }
    const context = this.buffer.getContext('2d');
    this.pixels ??= context.createImageData(wide, high);
    const target = new Uint32Array(this.pixels.data.buffer);
    target.fill(0);
    const { min: x0, max: x1 } = plot.scales.x;
    const { min: y0, max: y1 } = plot.scales.y;
    const [kx, ky] = [wide / (x1 - x0), high / (y1 - y0)];
    const radius = this.radius();
    const disc = discOf(radius, wide);
    const { order, fitness, state } = population;
    for (const living of [false, true]) {
      for (let i = 0; i < order.length; i++) {
        const row = order[i];
        if ((state[row] === ALIVE) !== living) continue;
        const x = ((xs[row] - x0) * kx) | 0;
        const y = ((y1 - fitness[row]) * ky) | 0;
        if (x < -radius || y < -radius || x >= wide + radius || y >= high + radius) continue;
        const colour = colours[row];
        if (x >= radius && y >= radius && x < wide - radius && y < high - radius) {
          const centre = y * wide + x;
          for (let k = 0; k < disc.flat.length; k++) target[centre + disc.flat[k]] = colour;
          // Soft edges are not drawn over another dot, where they would look like a hole.
          for (let k = 0; k < disc.rim.length; k++) {
            const at = centre + disc.rim[k];
            if (!target[at]) target[at] = (colour & 0xffffff) | disc.cover[k];
          }
        } else clipped(target, disc, x, y, wide, high, colour);
      }
    }
    context.putImageData(this.pixels, 0, 0);
    plot.ctx.drawImage(this.buffer, Math.round(left), Math.round(top));
    this.frames = {
      count: this.frames.count + 1,
      milliseconds: performance.now() - started,
      rows: order.length,
      across: this.axis,
      colour: this.mode,
    };
  }

  inside(draw) {
    const { ctx, bbox } = this.plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    draw(ctx);
    ctx.restore();
  }

  // Draws a line where each change of settings came into force.
  drawChanges() {
    const { plot, changes } = this;
    const theme = palette();
    const { total } = AXES[this.axis];
    this.inside((ctx) => {
      ctx.fillStyle = theme.change;
      ctx.lineJoin = 'round';
      ctx.font = `${11 * devicePixelRatio}px system-ui`;
      changes.forEach((change, i) => {
        const x = plot.valToPos(change[total], 'x', true);
        ctx.strokeStyle = theme.change;
        ctx.lineWidth = devicePixelRatio;
        ctx.setLineDash([5 * devicePixelRatio, 4 * devicePixelRatio]);
        ctx.beginPath();
        ctx.moveTo(x, plot.bbox.top);
        ctx.lineTo(x, plot.bbox.top + plot.bbox.height);
        ctx.stroke();
        const late = x > plot.bbox.left + 0.7 * plot.bbox.width;
        ctx.textAlign = late ? 'right' : 'left';
        const at = [
          change.text,
          x + (late ? -5 : 5) * devicePixelRatio,
          plot.bbox.top + (14 + 14 * (i % 3)) * devicePixelRatio,
        ];
        ctx.strokeStyle = theme.ground;
        ctx.lineWidth = 4 * devicePixelRatio;
        ctx.setLineDash([]);
        ctx.strokeText(...at); // The outline keeps dots and lines off the letters.
        ctx.fillText(...at);
      });
    });
  }

  // Draws one ring per individual in training (at the height of its parent), and the chosen
  // individual with the line of its ancestors.
  drawChosen() {
    const { population, selected } = this;
    const theme = palette();
    const dpr = devicePixelRatio;
    const ring = (ctx, row, colour, size) => {
      const [x, y] = this.place(row, true);
      ctx.strokeStyle = colour;
      ctx.lineWidth = 2 * dpr;
      ctx.beginPath();
      ctx.arc(x, y, size * dpr, 0, 7);
      ctx.stroke();
    };
    this.inside((ctx) => {
      let rings = 0;
      for (let row = population.size - 1; row >= 0 && rings < 1000; row--) {
        if (population.state[row] !== TRAINING) continue;
        ring(ctx, row, theme.training, 5);
        rings += 1;
      }
      if (selected < 0 || selected >= population.size) return;
      ctx.strokeStyle = theme.chosen;
      ctx.lineWidth = 1.6 * dpr;
      ctx.beginPath();
      const chain = population.ancestors(selected);
      chain.forEach((row, i) => ctx[i ? 'lineTo' : 'moveTo'](...this.place(row, true)));
      ctx.stroke();
      ctx.fillStyle = theme.chosen;
      for (const row of chain.slice(1, 500)) {
        ctx.beginPath();
        ctx.arc(...this.place(row, true), 2.5 * dpr, 0, 7);
        ctx.fill();
      }
      ring(ctx, selected, theme.chosen, 8);
    });
  }

  height(row) {
    const { fitness, parent } = this.population;
    if (!Number.isNaN(fitness[row])) return fitness[row];
    return parent[row] >= 0 && !Number.isNaN(fitness[parent[row]]) ? fitness[parent[row]] : 0;
  }

  place(row, canvas = false) {
    return [
      this.plot.valToPos(this.xs[row], 'x', canvas),
      this.plot.valToPos(this.height(row), 'y', canvas),
    ];
  }

  // -- The dot under the pointer --

  // Sorts the dots into cells of the plot; the result is kept until the plot changes.
  cells() {
    const { plot, population } = this;
    const { x, y } = plot.scales;
    const key = [
      x.min,
      x.max,
      y.min,
      y.max,
      population.size,
      plot.over.clientWidth,
      plot.over.clientHeight,
    ].join();
    if (this.grid?.key === key) return this.grid;
    const [wide, high] = [plot.over.clientWidth, plot.over.clientHeight];
    const columns = Math.ceil(wide / CELL) + 1;
    const first = new Int32Array(columns * (Math.ceil(high / CELL) + 1)).fill(-1);
    const next = new Int32Array(population.size).fill(-1);
    const px = new Float32Array(population.size);
    const py = new Float32Array(population.size);
    for (let row = 0; row < population.size; row++) {
      px[row] = ((this.xs[row] - x.min) / (x.max - x.min)) * wide;
      py[row] = ((y.max - this.height(row)) / (y.max - y.min)) * high;
      if (!(px[row] >= 0 && py[row] >= 0 && px[row] < wide && py[row] < high)) continue;
      const cell = Math.floor(py[row] / CELL) * columns + Math.floor(px[row] / CELL);
      next[row] = first[cell];
      first[cell] = row;
    }
    this.grid = { key, columns, first, next, px, py };
    return this.grid;
  }

  nearest(x, y, reach = 14) {
    const { columns, first, next, px, py } = this.cells();
    let found = -1;
    let closest = reach * reach;
    const [column, line] = [Math.floor(x / CELL), Math.floor(y / CELL)];
    for (let j = Math.max(0, line - 1); j <= line + 1; j++) {
      for (let i = Math.max(0, column - 1); i <= Math.min(columns - 1, column + 1); i++) {
        for (let row = first[j * columns + i] ?? -1; row >= 0; row = next[row]) {
          const distance = (px[row] - x) ** 2 + (py[row] - y) ** 2;
          if (distance <= closest) [closest, found] = [distance, row];
        }
      }
    }
    return found;
  }

  hover(row) {
    if (row === this.hovered) return;
    this.hovered = row;
    this.ring.hidden = row < 0;
    if (row >= 0) {
      const [x, y] = this.place(row);
      this.ring.style.transform = `translate(${x}px, ${y}px)`;
    }
    this.onHover(row);
  }
}
