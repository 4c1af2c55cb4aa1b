// Loaded into a process before its program (`NODE_OPTIONS=--import=...`): measures the turns of its event loop.
import { openSync, readSync, writeSync } from 'node:fs';

const STAT = openStat();
const BYTES = Buffer.alloc(128);

let longest = { cpuMs: 0, wallMs: 0 };
let lastCpu = cpuMs();
let lastWall = performance.now();
let count = 0;
let watching = false;

/**
 * Each SIGUSR2 writes one line to standard error, `loop-watch COUNT CPU WALL`: the number of the line, and of the longest turn since
 * the line before the CPU time of the main thread and the duration, in milliseconds. The first one starts the measurement.
 */
process.on('SIGUSR2', () => {
  writeSync(2, `loop-watch ${(count += 1)} ${longest.cpuMs.toFixed(3)} ${longest.wallMs.toFixed(3)}\n`);
  longest = { cpuMs: 0, wallMs: 0 };
  if (watching) return;
  watching = true;
  lastCpu = cpuMs();
  lastWall = performance.now();
  setImmediate(turn);
});

function turn() {
  const [cpu, wall] = [cpuMs(), performance.now()];
  if (cpu - lastCpu > longest.cpuMs) longest = { cpuMs: cpu - lastCpu, wallMs: wall - lastWall };
  [lastCpu, lastWall] = [cpu, wall];
  setImmediate(turn);
}

/** CPU time of this thread; of the process where the system does not tell it. */
function cpuMs() {
  if (STAT !== undefined) {
    const length = readSync(STAT, BYTES, 0, BYTES.length, 0);
    return Number(BYTES.toString('latin1', 0, length).split(' ', 1)[0]) / 1e6;
  }
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

function openStat() {
  try {
    return openSync('/proc/thread-self/schedstat');
  } catch {
    return undefined;
  }
}
