import { readdir, readFile } from 'node:fs/promises';
import pg from 'pg';
import { readCpuSeconds } from './cpu.mjs';

/**
 * CPU seconds that a PostgreSQL on this machine has used so far with all of its processes, on Linux; NaN elsewhere.
 * Those of sessions that have ended are with their parent.
 * @param pid of the server's first process
 */
export async function postgresCpuSeconds(pid) {
  const own = await readCpuSeconds(pid);
  if (Number.isNaN(own)) return own;
  const [, , , , , , , , , , , , , ...more] = await readStat(pid);
  let sum = own + (Number(more[0]) + Number(more[1])) / 100;
  for (const entry of await readdir('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    const stat = await readStat(entry);
    if (stat[1] === String(pid)) sum += await readCpuSeconds(entry);
  }
  return sum;
}

/** The process id of the server to which a session's process belongs, on Linux. */
export async function findPostmaster(backendPid) {
  return Number((await readStat(backendPid))[1]);
}

/** The process id of the server with this URL, on this machine. */
export async function postmasterAt(url) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query("select current_setting('data_directory') as folder");
    const [pid] = (await readFile(`${rows[0].folder}/postmaster.pid`, 'utf8')).split('\n');
    return Number(pid);
  } finally {
    await client.end();
  }
}

/** The fields of /proc/PID/stat behind the name: state, parent, ... */
async function readStat(pid) {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}
