import { isDeepStrictEqual } from 'node:util';
import type { Schemas } from '@longshore/client';

type OpRun = Schemas['OpRun'];

/** One run of the demo: what is asked for, and how it is to end. */
export interface Example {
  /** Folder of its image under `examples/images`. */
  readonly name: string;
  readonly inputs: Readonly<Record<string, unknown>>;
  /**
   * How the ended run differs from what it should be, in words; an empty list when it ended as expected.
   * @param types the types of its events in order
   */
  readonly verify: (run: OpRun, types: readonly string[]) => readonly string[];
}

const EXIT_CODE = 3;

/** A run of each example image. */
export const EXAMPLES: readonly Example[] = [
  {
    name: 'word-count',
    inputs: { text: 'Ships come in.\nContainers go out.\n' },
    verify: (run) => [
      ...expectState(run, 'COMPLETED'),
      ...expectOutputs(run, { words: 6, lines: 2, characters: 34 }),
    ],
  },
  {
    name: 'progress',
    inputs: { steps: 10, seconds: 4 },
    verify: (run, types) => [
      ...expectState(run, 'COMPLETED'),
      ...(run.progress === 100 ? [] : [`its progress is ${run.progress} instead of 100`]),
      ...(types.includes('PROGRESS') ? [] : ['it reported no PROGRESS']),
    ],
  },
  {
    name: 'fail',
    inputs: { exit_code: EXIT_CODE, message: 'this example always fails' },
    verify: (run) => [...expectState(run, 'FAILED'), ...expectExitCode(run, EXIT_CODE)],
  },
];

/**
 * Name of an example's image. The registry it names is this machine, where there is none: nobody else's image can take
 * the example's place, and without a network no time is lost asking for it.
 */
export function imageName(name: string): string {
  return `localhost/longshore/${name}`;
}

function expectState(run: OpRun, state: OpRun['state']): string[] {
  if (run.state === state) return [];
  const reason = run.execution_summary.error_message;
  return [`it ended ${run.state} instead of ${state}${reason === undefined ? '' : ` (${reason})`}`];
}

function expectOutputs(run: OpRun, outputs: object): string[] {
  if (isDeepStrictEqual(run.outputs, outputs)) return [];
  return [`its outputs are ${JSON.stringify(run.outputs)} instead of ${JSON.stringify(outputs)}`];
}

function expectExitCode(run: OpRun, exitCode: number): string[] {
  const message = run.execution_summary.error_message ?? '';
  return new RegExp(String.raw`\bexit code ${exitCode}\b`).test(message)
    ? []
    : [`its error_message does not hold its exit code ${exitCode}: ${JSON.stringify(message)}`];
}
