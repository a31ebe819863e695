// A component for small line charts, drawn by uPlot in the page's colours.
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { palette } from './colours.js';
import { html } from './html.js';
import { INCREMENTS } from './format.js';

export function Chart({
  data,
  series,
  height = 200,
  x = {},
  y = {},
  theme,
  label,
  stepped = false,
  log = false,
}) {
  const root = useRef();
  useEffect(() => {
    if (!data[0].length) return undefined;
    const colours = palette();
    const axis = {
      stroke: colours.faint,
      grid: { stroke: colours.line, width: 1 },
      ticks: { stroke: colours.line, width: 1 },
      font: '12px system-ui',
    };
    const plot = new uPlot(
      {
        width: Math.max(160, root.current.clientWidth),
        height,
        legend: { show: false },
        cursor: { drag: { x: true, y: false }, points: { size: 6 } },
        scales: { x: { time: false }, y: log ? { distr: 3 } : y.range ? { range: y.range } : {} },
        axes: [
          {
            ...axis,
            ...(x.ticks ? { incrs: INCREMENTS } : {}),
            label: x.label,
            size: 34,
            labelSize: 20,
            labelFont: '12px system-ui',
            values: x.ticks
              ? (plot_, values) => x.ticks(values)
              : x.values && ((plot_, values) => values.map(x.values)),
            space: 70,
          },
          {
            ...axis,
            values:
              y.values &&
              ((plot_, values) => values.map((value) => (value == null ? '' : y.values(value)))),
            size: 62,
            ...(y.label ? { label: y.label, labelSize: 20, labelFont: '12px system-ui' } : {}),
          },
        ],
        series: [
          {},
          ...series.map((one) => ({
            label: one.label,
            stroke: one.colour,
            width: 2,
            dash: one.dash,
            spanGaps: true,
            points: { show: one.points ?? false, size: 5, fill: one.colour },
            paths: stepped ? uPlot.paths.stepped({ align: 1 }) : undefined,
          })),
        ],
      },
      data,
      root.current,
    );
    const observer = new ResizeObserver(() =>
      plot.setSize({ width: Math.max(160, root.current?.clientWidth || 0), height }),
    );
    observer.observe(root.current);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [data, theme, height, log]);
  return html`<div class="chart" ref=${root} role="img" aria-label=${label}>
    ${!data[0].length && html`<p class="faint">Nothing to draw yet.</p>`}
  </div>`;
}
