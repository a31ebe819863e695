// Keyboard, wheel, mouse and touch input for the scatter plot.

export function listenKeys(scatter) {
  scatter.root.tabIndex = 0;
  scatter.root.addEventListener('keydown', (event) => {
    const actions = {
      '+': () => scatter.zoom(0.7),
      '=': () => scatter.zoom(0.7),
      '-': () => scatter.zoom(1 / 0.7),
      ArrowLeft: () => scatter.pan(-0.12, 0),
      ArrowRight: () => scatter.pan(0.12, 0),
      ArrowUp: () => scatter.pan(0, 0.12),
      ArrowDown: () => scatter.pan(0, -0.12),
      0: () => scatter.look(null),
      Escape: () => scatter.onSelect(-1),
      n: () => step(scatter, 1),
      p: () => step(scatter, -1),
      b: () => scatter.onSelect(scatter.population.best()),
      Enter: () => scatter.selected >= 0 && scatter.onSelect(scatter.selected, true),
    };
    if (
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      !actions[event.key] ||
      !scatter.population
    )
      return;
    event.preventDefault();
    actions[event.key]();
  });
}

// Selects the next or previous individual in the order in which they finished training.
function step(scatter, by) {
  const { order, rank } = scatter.population;
  if (!order.length) return;
  const at =
    scatter.selected >= 0 && rank[scatter.selected] >= 1
      ? rank[scatter.selected] - 1 + by
      : order.length - 1;
  scatter.onSelect(order[Math.min(Math.max(at, 0), order.length - 1)]);
}

export function listenPointers(scatter) {
  const { over } = scatter.plot;
  const fingers = new Map();
  let moved = 0;
  const where = (event) => {
    const box = over.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top, box.width, box.height];
  };
  over.addEventListener(
    'wheel',
    (event) => {
      event.preventDefault();
      const [x, y, wide, high] = where(event);
      scatter.zoom(
        Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.004),
        x / wide,
        1 - y / high,
      );
    },
    { passive: false },
  );
  over.addEventListener('pointerdown', (event) => {
    if (event.button) return;
    fingers.set(event.pointerId, [event.clientX, event.clientY]);
    over.setPointerCapture(event.pointerId);
    moved = 0;
  });
  over.addEventListener('pointermove', (event) => {
    const [x, y, wide, high] = where(event);
    const before = fingers.get(event.pointerId);
    if (!before) {
      scatter.hover(scatter.nearest(x, y));
      return;
    }
    const now = [event.clientX, event.clientY];
    const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
    moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
    if (other) {
      const factor =
        Math.hypot(before[0] - other[0], before[1] - other[1]) /
        Math.max(20, Math.hypot(now[0] - other[0], now[1] - other[1]));
      scatter.zoom(factor, x / wide, 1 - y / high);
    } else if (moved > 4) scatter.pan((before[0] - now[0]) / wide, (now[1] - before[1]) / high);
    fingers.set(event.pointerId, now);
  });
  const up = (event) => {
    if (!fingers.delete(event.pointerId) || moved > 4 || event.type !== 'pointerup') return;
    const [x, y] = where(event);
    scatter.onSelect(scatter.nearest(x, y, event.pointerType === 'touch' ? 28 : 14));
  };
  over.addEventListener('pointerup', up);
  over.addEventListener('pointercancel', up);
  over.addEventListener('pointerleave', () => scatter.hover(-1));
  over.addEventListener('dblclick', () => scatter.look(null));
}
