// Discs of pixels, from which the dots of the scatter plot are drawn.
const discs = new Map();

// Returns the pixels of a disc as offsets from its centre.
export function discOf(radius, wide) {
  const key = `${radius} ${wide}`;
  if (!discs.has(key)) {
    const dx = [];
    const dy = [];
    const rim = [];
    const cover = [];
    const soft = radius > 2;
    for (let y = -radius; y <= radius; y++) {
      for (let x = -radius; x <= radius; x++) {
        const share = soft
          ? Math.min(1, radius + 0.2 - Math.hypot(x, y))
          : x * x + y * y <= radius * radius + 0.6
            ? 1
            : 0;
        if (share >= 0.95) {
          dx.push(x);
          dy.push(y);
        } else if (share > 0.08) {
          rim.push(y * wide + x);
          cover.push(Math.round(255 * share) << 24);
        }
      }
    }
    if (discs.size > 64) discs.clear();
    discs.set(key, {
      dx,
      dy,
      flat: Int32Array.from(dx, (x, i) => dy[i] * wide + x),
      rim: Int32Array.from(rim),
      cover: Int32Array.from(cover),
    });
  }
  return discs.get(key);
}

// Draws a disc that may reach over the border of the picture.
export function clipped(target, { dx, dy }, x, y, wide, high, colour) {
  for (let k = 0; k < dx.length; k++) {
    const [px, py] = [x + dx[k], y + dy[k]];
    if (px >= 0 && py >= 0 && px < wide && py < high) target[py * wide + px] = colour;
  }
}
