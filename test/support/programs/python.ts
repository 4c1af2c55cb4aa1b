import assert from 'node:assert/strict';
import { join } from 'node:path';
import { ended, type CliEnd } from './cli.js';
import { launch, PROJECT, type TestProcess } from '../service-process.js';

/** Starts a program in Python that may import `longshore`. */
export function startPython(
  program: string,
  env: Readonly<Record<string, string>> = {},
): Promise<TestProcess> {
  return launch(['python3', '-c', `from longshore import *\n${program}`], {
    env: { PYTHONPATH: join(PROJECT, 'packages', 'python'), PYTHONDONTWRITEBYTECODE: '1', ...env },
  });
}

/** Runs such a program to its end. */
export async function runPython(program: string, env?: Readonly<Record<string, string>>): Promise<CliEnd> {
  return ended(await startPython(program, env));
}

/** Runs a program that has a client of the service in `api`. @returns what it printed */
export async function withClient(
  url: string,
  program: string,
  env: Readonly<Record<string, string>> = {},
): Promise<string> {
  const { code, stdout, output } = await runPython(`api = Longshore()\n${program}`, {
    SERVICE_URL: url,
    SERVICE_API_KEY: 'the-key',
    ...env,
  });
  assert.equal(code, 0, output);
  return stdout;
}
