// Hands on the cloud of dots: keys, wheel, mouse and fingers.

export function listenKeys(cloud) {
  cloud.root.tabIndex = 0;
  cloud.root.addEventListener('keydown', (event) => {
    const hands = {
      '+': () => cloud.zoom(0.7),
      '=': () => cloud.zoom(0.7),
      '-': () => cloud.zoom(1 / 0.7),
      ArrowLeft: () => cloud.pan(-0.12, 0),
      ArrowRight: () => cloud.pan(0.12, 0),
      ArrowUp: () => cloud.pan(0, 0.12),
      ArrowDown: () => cloud.pan(0, -0.12),
      0: () => cloud.look(null),
      Escape: () => cloud.onSelect(-1),
      n: () => step(cloud, 1),
      p: () => step(cloud, -1),
      b: () => cloud.onSelect(cloud.population.best()),
      Enter: () => cloud.selected >= 0 && cloud.onSelect(cloud.selected, true),
    };
    if (event.ctrlKey || event.metaKey || event.altKey || !hands[event.key] || !cloud.population)
      return;
    event.preventDefault();
    hands[event.key]();
  });
}

// The next individual, in the order in which they became alive.
function step(cloud, by) {
  const { order, rank } = cloud.population;
  if (!order.length) return;
  const at =
    cloud.selected >= 0 && rank[cloud.selected] >= 1
      ? rank[cloud.selected] - 1 + by
      : order.length - 1;
  cloud.onSelect(order[Math.min(Math.max(at, 0), order.length - 1)]);
}

export function listenPointers(cloud) {
  const { over } = cloud.plot;
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
      cloud.zoom(
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
      cloud.hover(cloud.nearest(x, y));
      return;
    }
    const now = [event.clientX, event.clientY];
    const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
    moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
    if (other) {
      const factor =
        Math.hypot(before[0] - other[0], before[1] - other[1]) /
        Math.max(20, Math.hypot(now[0] - other[0], now[1] - other[1]));
      cloud.zoom(factor, x / wide, 1 - y / high);
    } else if (moved > 4) cloud.pan((before[0] - now[0]) / wide, (now[1] - before[1]) / high);
    fingers.set(event.pointerId, now);
  });
  const up = (event) => {
    if (!fingers.delete(event.pointerId) || moved > 4 || event.type !== 'pointerup') return;
    const [x, y] = where(event);
    cloud.onSelect(cloud.nearest(x, y, event.pointerType === 'touch' ? 28 : 14));
  };
  over.addEventListener('pointerup', up);
  over.addEventListener('pointercancel', up);
  over.addEventListener('pointerleave', () => cloud.hover(-1));
  over.addEventListener('dblclick', () => cloud.look(null));
}
