import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import type { ContainerExit, ContainerLimits, ContainerSpec, LogLine } from '../runtime/runtime.js';
import type { RunningContainer } from '../runtime/runtime.js';
import type { RuntimeLog } from '../runtime/runtime-log.js';

export const NO_LIMITS: ContainerLimits = { ramMb: 0, cpu: 0, gpuId: null, vramMb: 0 };

/** Folders of runs as the worker prepares them; all are removed after the tests of the file. */
export class RunFolders {
  readonly base = mkdtempSync(join(tmpdir(), 'longshore-runs-'));
  private count = 0;

  constructor() {
    after(() => rmSync(this.base, { recursive: true, force: true }));
  }

  /** A new folder with the two files, named like the run `run-N`. */
  spec(image: string, inputs: object = {}, limits: Partial<ContainerLimits> = {}): ContainerSpec {
    this.count += 1;
    const runId = `run-${this.count}`;
    const folder = join(this.base, runId);
    mkdirSync(folder);
    chmodSync(folder, 0o777);
    writeFileSync(join(folder, 'input.json'), JSON.stringify(inputs));
    writeFileSync(join(folder, 'output.json'), '{}');
    chmodSync(join(folder, 'output.json'), 0o666);
    return { runId, attempt: 1, image, folder, limits: { ...NO_LIMITS, ...limits }, trace: null };
  }
}

/** What a program left in its output file. */
export function outputsOf({ folder }: ContainerSpec): unknown {
  return JSON.parse(readFileSync(join(folder, 'output.json'), 'utf8'));
}

/** Everything a container printed, and how it ended. */
export async function readToEnd(
  container: RunningContainer,
): Promise<{ lines: LogLine[]; exit: ContainerExit }> {
  const lines: LogLine[] = [];
  for await (const line of container.lines) lines.push(line);
  return { lines, exit: await container.exit };
}

/** Texts of one stream's lines. */
export function textsOf(lines: readonly LogLine[], stream: LogLine['stream']): string[] {
  return lines.filter((line) => line.stream === stream).map(({ text }) => text);
}

/** A log that remembers its warnings. */
export class MemoryLog implements RuntimeLog {
  readonly warnings: { fields: object; message: string }[] = [];

  info(): void {}

  warn(fields: object, message: string): void {
    this.warnings.push({ fields, message });
  }
}
