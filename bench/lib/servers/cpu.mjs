import { readFile } from 'node:fs/promises';

/** Unit of the times in /proc: USER_HZ, which is 100 on every Linux. */
export const TICKS_PER_SECOND = 100;

/** CPU seconds that a process has used, on Linux; NaN elsewhere. */
export async function readCpuSeconds(pid) {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null);
  if (stat === null) return Number.NaN;
  const [user, system] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13);
  return (Number(user) + Number(system)) / TICKS_PER_SECOND;
}
