import assert from 'node:assert/strict';
import { processRuns } from './child-processes.js';
import { readPostmasterFile } from '@longshore/embedded-postgres/postmaster-file';
import { serverUrl } from '@longshore/embedded-postgres/server-process';
import { startService, until, type ServiceOptions, type ServiceProcess } from '../service-process.js';

/** A line of the log. */
export interface LogLine {
  readonly pid: number;
  readonly time: string;
  readonly msg: string;
  readonly [field: string]: unknown;
}

/** Starts the built service with several server processes. */
export function startCluster(options: ServiceOptions = {}, workers = 2): Promise<ServiceProcess> {
  return startService({ ...options, args: ['--workers', String(workers), ...(options.args ?? [])] });
}

/** Everything that the service has logged. @throws AssertionError when a line is broken or names no process */
export function logOf({ stdout }: ServiceProcess): LogLine[] {
  return stdout
    .slice(0, stdout.lastIndexOf('\n') + 1)
    .trimEnd()
    .split('\n')
    .map((text) => {
      const line: unknown = JSON.parse(text);
      assert.ok(isLogLine(line), `a line without process or time: ${text}`);
      return line;
    });
}

/** Lines with this message. */
export function linesWith(service: ServiceProcess, msg: string): LogLine[] {
  return logOf(service).filter((line) => line.msg === msg);
}

/** Pids of the server processes that were ready so far, in that order. */
export function readyPids(service: ServiceProcess): number[] {
  return linesWith(service, 'a server process is ready').map((line) => Number(line['serverProcess']));
}

/** Waits until this many server processes have been ready since the start, the first ones included. */
export async function untilReady(service: ServiceProcess, count: number): Promise<void> {
  await until(() => readyPids(service).length >= count, `${count} ready processes in ${service.output}`);
}

/** Waits until none of the processes runs any more. */
export async function untilGone(pids: readonly number[]): Promise<void> {
  await until(
    async () => {
      const running = await Promise.all(pids.map((pid) => processRuns(pid)));
      return !running.includes(true);
    },
    `processes ${pids.join(', ')} go on`,
  );
}

/** The URL of the embedded database of a service. */
export async function databaseUrlOf({ cluster }: ServiceProcess): Promise<string> {
  const file = await readPostmasterFile(cluster);
  assert.ok(file?.socketDirectory !== undefined, 'no database runs');
  return serverUrl(file.socketDirectory);
}

function isLogLine(line: unknown): line is LogLine {
  return (
    typeof line === 'object' &&
    line !== null &&
    'pid' in line &&
    typeof line.pid === 'number' &&
    'time' in line &&
    'msg' in line &&
    typeof line.msg === 'string'
  );
}
