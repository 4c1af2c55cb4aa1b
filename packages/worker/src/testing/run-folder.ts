import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import type {
  ContainerExit,
  ContainerLimits,
  ContainerSpec,
  LogLine,
  RunningContainer,
  RuntimeLog,
} from '../runtime/runtime.js';

export const NO_LIMITS: ContainerLimits = { ramMb: 0, cpu: 0, gpuId: null, vramMb: 0 };

/** Run folders as the worker prepares them, removed after the tests of the file. */
export class RunFolders {
  readonly base = mkdtempSync(join(tmpdir(), 'longshore-runs-'));
  private count = 0;

  constructor() {
    after(() => rmSync(this.base, { recursive: true, force: true }));
  }

  /** Creates the folder of the next run, `run-N`. */
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

export function outputsOf({ folder }: ContainerSpec): unknown {
  return JSON.parse(readFileSync(join(folder, 'output.json'), 'utf8'));
}

export async function readToEnd(
  container: RunningContainer,
): Promise<{ lines: LogLine[]; exit: ContainerExit }> {
  const lines: LogLine[] = [];
  for await (const line of container.lines) lines.push(line);
  return { lines, exit: await container.exit };
}

export function textsOf(lines: readonly LogLine[], stream: LogLine['stream']): string[] {
  return lines.filter((line) => line.stream === stream).map(({ text }) => text);
}

export class MemoryLog implements RuntimeLog {
  readonly warnings: { fields: object; message: string }[] = [];

  info(): void {}

  warn(fields: object, message: string): void {
    this.warnings.push({ fields, message });
  }
}
