import { quantile } from '../pages/stats.mjs';

/**
 * Simulates a journal: commands come at random times, a commit takes all that wait, up to `maxGroup`, and lasts
 * `fixedMs + n * eachMs` for n commands; the next begins when it is over. Always the same random numbers.
 * @param perSecond commands a second
 * @returns the part of the time in which it commits, and p50 and p99 of a command's stay in milliseconds
 */
export function simulateJournal({ perSecond, fixedMs, eachMs, maxGroup = 200, commands = 40_000 }) {
  const random = generator(1);
  const stays = [];
  let arrival = 0;
  const arrivals = Array.from({ length: commands }, () => {
    arrival += (-Math.log(1 - random()) * 1000) / perSecond;
    return arrival;
  });
  let now = 0;
  let busy = 0;
  for (let next = 0; next < commands;) {
    now = Math.max(now, arrivals[next]);
    let size = 0;
    while (size < maxGroup && next + size < commands && arrivals[next + size] <= now) size += 1;
    const lasts = fixedMs + size * eachMs;
    now += lasts;
    busy += lasts;
    for (let n = 0; n < size; n += 1) stays.push(now - arrivals[next + n]);
    next += size;
  }
  return { used: busy / now, p50: quantile(stays, 0.5), p99: quantile(stays, 0.99) };
}

/**
 * The straight line through the points (x, y) that errs least.
 * @returns `{ at0, slope }`, neither of them negative
 */
export function fitLine(points) {
  const [x, y] = [mean(points.map(([a]) => a)), mean(points.map(([, b]) => b))];
  const slope = Math.max(
    0,
    points.reduce((sum, [a, b]) => sum + (a - x) * (b - y), 0) /
      points.reduce((sum, [a]) => sum + (a - x) ** 2, 0),
  );
  return { at0: Math.max(0, y - slope * x), slope };
}

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Numbers from 0 to 1, the same for the same seed (mulberry32). */
function generator(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
