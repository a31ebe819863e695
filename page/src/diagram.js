// Draws an architecture like the paper: the backbone runs down the page, and skips are arcs beside
// it. The width of a box shows the size of its activation, which makes strided layers visible.
import { html } from './html.js';
import { shape } from './format.js';

const LARGE = { row: 34, box: 24, wide: 340, lane: 15, left: 8, top: 6 };
const SMALL = { row: 9, box: 7, wide: 60, lane: 6, left: 2, top: 2 };

export function nameOf(layer, number) {
  if (!number) return 'image';
  const main = layer.edges.find((edge) => edge.backbone) || layer.edges[0];
  const words = [main, layer].filter((one) => one?.computes).map(titleOf);
  return words.join(', ') || 'linear';
}

// An edge's or vertex's kind in words, marked if the server does not know it.
export const titleOf = (one) => (one.known === false ? `? ${one.title}` : one.title);

// Cuts a text that is wider than this many pixels.
function fitted(text, wide) {
  const most = Math.floor(wide / 7);
  return text.length > most ? `${text.slice(0, most - 1).trimEnd()}…` : text;
}

// Returns the size of each activation relative to the side of the image. The sizes come from the
// shapes, or from the strides if the shapes are unknown.
function sides(layers) {
  const found = [];
  layers.forEach((layer, i) => {
    const main = layer.edges.find((edge) => edge.backbone) || layer.edges[0];
    found[i] = layer.shape
      ? layer.shape[0] / layers[0].shape[0]
      : i
        ? found[main.from] / main.stride
        : 1;
  });
  return found;
}

// Places overlapping arcs side by side, with the shortest one nearest to the column.
function lanes(arcs) {
  const taken = [];
  for (const arc of [...arcs].sort((a, b) => a.to - a.from - (b.to - b.from))) {
    let lane = 0;
    while (taken.some((other) => other.lane === lane && other.from < arc.to && arc.from < other.to))
      lane += 1;
    arc.lane = lane;
    taken.push(arc);
  }
  return taken.reduce((most, arc) => Math.max(most, arc.lane + 1), 0);
}

export function Diagram({ layers, classes, small = false, title }) {
  const size = small ? SMALL : LARGE;
  const side = sides(layers);
  const arcs = layers.flatMap((layer, to) =>
    layer.edges
      .filter((edge) => !(edge.backbone && edge.from === to - 1))
      .map((edge) => ({ ...edge, to })),
  );
  const depth = lanes(arcs);
  const rows = layers.length + (small ? 0 : 1);
  const width = size.left + size.wide + (depth ? 8 : 0) + depth * size.lane + size.left;
  const height = 2 * size.top + rows * size.row;
  const centre = size.left + size.wide / 2;
  const y = (row) => size.top + row * size.row;
  const middle = (row) => y(row) + size.box / 2;
  const wideOf = (row) =>
    size.wide * (small ? Math.max(0.22, Math.sqrt(side[row])) : 0.7 + 0.3 * Math.sqrt(side[row]));
  const edge = size.left + size.wide;
  return html`<svg
    class=${small ? 'diagram small' : 'diagram'}
    viewBox="0 0 ${width} ${height}"
    width=${width}
    height=${height}
    role="img"
    aria-label=${title}
  >
    ${layers.map(
      (layer, i) =>
        i > 0 &&
        layer.edges.some((one) => one.backbone && one.from === i - 1) &&
        html`<line class="wire" x1=${centre} x2=${centre} y1=${y(i - 1) + size.box} y2=${y(i)} />`,
    )}
    ${arcs.map((arc) => {
      const reach = edge + 6 + (arc.lane + 0.6) * size.lane;
      const [from, to] = [middle(arc.from), middle(arc.to)];
      const [a, b] = [centre + wideOf(arc.from) / 2, centre + wideOf(arc.to) / 2];
      const path =
        `M${a} ${from} C${reach} ${from} ${reach} ${from} ${reach} ${(from + to) / 2} ` +
        `S${reach} ${to} ${b} ${to}`;
      const name = arc.computes ? titleOf(arc) : 'skip';
      return html`<path class="arc ${colourOf(arc)}" d=${path}>
        <title>${name}: ${arc.from} → ${arc.to}</title>
      </path>`;
    })}
    ${layers.map((layer, i) => {
      const strided = layer.edges.find((one) => one.backbone)?.stride > 1;
      const fresh = i > 0 && (layer.fresh || layer.edges.some((one) => one.fresh));
      const wide = wideOf(i);
      const [left, right] = [centre - wide / 2, centre + wide / 2];
      const half = size.box / 2 + 1;
      const name = nameOf(layer, i);
      const extent = shape(layer.shape);
      const names = [
        'layer',
        kindOf(layer, i),
        strided ? 'strided' : '',
        fresh && !small ? 'fresh' : '',
        layer.backbone ? '' : 'aside',
      ];
      return html`<g class=${names.join(' ')}>
        <rect x=${left} y=${y(i)} width=${wide} height=${size.box} rx=${small ? 1 : 5} />
        ${
          !small &&
          html`<title>${name}</title>
            <text x=${left + 8} y=${middle(i) + 4}>
              ${fitted(name, wide - 24 - 6.8 * extent.length)}
            </text>
            <text class="shape" x=${right - 8} y=${middle(i) + 4} text-anchor="end">${extent}</text>`
        }
        ${
          !small &&
          strided &&
          html`<path class="notch" d="M${left - 7} ${y(i) - 1} l6 ${half} l-6 ${half}" />`
        }
      </g>`;
    })}
    ${
      !small &&
      html`<line
          class="wire"
          x1=${centre}
          x2=${centre}
          y1=${y(layers.length - 1) + size.box}
          y2=${y(layers.length)}
        />
        <g class="layer end">
          <rect
            x=${centre - 0.35 * size.wide}
            y=${y(layers.length)}
            width=${0.7 * size.wide}
            height=${size.box}
            rx="5"
          />
          <text x=${centre} y=${middle(layers.length) + 4} text-anchor="middle">
            pooling, ${classes ? `${classes} classes` : 'classes'}
          </text>
        </g>`
    }
  </svg>`;
}

// The class of a layer's box, which gives it its colour.
function kindOf(layer, number) {
  if (!number) return 'end';
  const main = layer.edges.find((edge) => edge.backbone) || layer.edges[0];
  if (layer.known === false || main?.known === false) return 'unknown';
  if (main?.computes && !main.has_weights) return 'pool';
  if (main?.computes) return layer.computes ? 'active' : 'conv';
  return layer.computes ? 'thin' : 'plain';
}

// The class of an arc: a layer with weights, one without such as a pooling, or a skip.
function colourOf(arc) {
  if (!arc.computes) return '';
  return arc.has_weights || arc.known === false ? 'computing' : 'pooling';
}
