import { readdir, readFile } from 'node:fs/promises';
import { availableParallelism, loadavg } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { TICKS_PER_SECOND } from './servers/cpu.mjs';

/** Share of the machine's CPU that other processes may use before a measurement starts, in percent. */
const MOST_PERCENT = 5;
/** Length of one observation, and how long a start waits for an idle machine, in milliseconds. */
const OBSERVE_MS = 2_000;
const PATIENCE_MS = 10_000;

/**
 * Waits until other processes use at most 5 % of the machine's CPU.
 * @param mayBeBusy whether to go on without waiting, whatever they use
 * @throws Error when they still use more after 10 s
 */
export async function waitUntilIdle({ mayBeBusy = false } = {}) {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const watch = await watchOthers();
    await sleep(OBSERVE_MS);
    const { othersCpuPercent } = await watch.end();
    if (mayBeBusy || !(othersCpuPercent > MOST_PERCENT)) return;
    if (performance.now() > deadline) {
      throw new Error(
        `the machine is not idle: other processes use ${othersCpuPercent.toFixed(0)} % of its CPU. ` +
          'Stop them, or measure anyway with BENCH_ANYWAY=1, which the page shows',
      );
    }
  }
}

/**
 * Observes what this process and its descendants do not cause.
 * @returns `end()`, which resolves with `loadBefore` and `loadAfter` (load average of one minute), `othersCpuPercent`
 * (CPU that other processes used, in percent of all cores) and `stolenPercent` (CPU that the hypervisor gave to other
 * machines). The percentages are NaN where there is no /proc.
 */
export async function watchOthers() {
  const [loadBefore] = loadavg();
  const before = await readCpu();
  return {
    async end() {
      const after = await readCpu();
      const total = ((after.at - before.at) / 1000) * availableParallelism();
      const percent = (name) => Math.max(0, Math.round(((after[name] - before[name]) / total) * 1000) / 10);
      return {
        loadBefore: Math.round(loadBefore * 100) / 100,
        loadAfter: Math.round(loadavg()[0] * 100) / 100,
        othersCpuPercent: percent('others'),
        stolenPercent: percent('stolen'),
      };
    },
  };
}

/** CPU seconds since the machine started: of processes outside of this one's tree, and stolen by the hypervisor. */
async function readCpu() {
  const at = performance.now();
  const text = await readFile('/proc/stat', 'utf8').catch(() => '');
  const [user, nice, system, , , irq, softirq, stolen] = (/^cpu +(.+)$/m.exec(text)?.[1] ?? '')
    .split(' ')
    .map((ticks) => Number(ticks) / TICKS_PER_SECOND);
  return { at, others: user + nice + system + irq + softirq - (await secondsOfTree()), stolen };
}

/** CPU seconds of this process and its descendants, those that have ended included. */
async function secondsOfTree() {
  const children = new Map();
  const seconds = new Map();
  for (const entry of await readdir('/proc').catch(() => [])) {
    if (!/^\d+$/.test(entry)) continue;
    const stat = await readFile(`/proc/${entry}/stat`, 'utf8').catch(() => '');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [parent, ticks] = [Number(fields[1]), fields.slice(11, 15)];
    children.set(parent, [...(children.get(parent) ?? []), Number(entry)]);
    seconds.set(Number(entry), ticks.reduce((sum, value) => sum + Number(value), 0) / TICKS_PER_SECOND);
  }
  const sumOf = (pid) =>
    (children.get(pid) ?? []).reduce((sum, child) => sum + sumOf(child), seconds.get(pid) ?? 0);
  return sumOf(process.pid);
}
