import { isDeepStrictEqual } from 'node:util';
import type { Schemas } from '@longshore/client';

type OpRun = Schemas['OpRun'];
type Definition = Schemas['OpDefinitionCreate'];

/** An example image with a run of it. */
export interface Example {
  /** Folder of the image under `examples/images`, and id of the definition. */
  readonly name: string;
  readonly inputSpecs: NonNullable<Definition['input_specs']>;
  readonly inputs: Schemas['DefinitionRunCreate']['inputs'] & object;
  /** Priority that the demo sets after the creation, so that the audit log has an entry. */
  readonly changedPriority?: number;
  /**
   * Describes how the ended run differs from the expected result; empty when it does not.
   * @param types types of its events, in order
   */
  readonly verify: (run: OpRun, types: readonly string[]) => readonly string[];
}

const EXIT_CODE = 3;

/** Topic of all runs of the demo. */
const TOPIC = 'demo';

export const EXAMPLES: readonly Example[] = [
  {
    name: 'word-count',
    inputSpecs: { text: { type: 'string', required: true } },
    inputs: { text: 'Ships come in.\nContainers go out.\n' },
    verify: (run) => [
      ...expectState(run, 'COMPLETED'),
      ...expectOutputs(run, { words: 6, lines: 2, characters: 34 }),
    ],
  },
  {
    name: 'progress',
    inputSpecs: { steps: { type: 'integer' }, seconds: { type: 'number' } },
    inputs: { steps: 10, seconds: 4 },
    changedPriority: 1,
    verify: (run, types) => [
      ...expectState(run, 'COMPLETED'),
      ...(run.progress === 100 ? [] : [`its progress is ${run.progress} instead of 100`]),
      ...(types.includes('PROGRESS') ? [] : ['it reported no PROGRESS']),
    ],
  },
  {
    name: 'fail',
    inputSpecs: { exit_code: { type: 'integer' }, message: { type: 'string' } },
    inputs: { exit_code: EXIT_CODE, message: 'this example always fails' },
    verify: (run) => [...expectState(run, 'FAILED'), ...expectExitCode(run, EXIT_CODE)],
  },
];

/**
 * Image name of an example. It names this machine as the registry, so that no image from the network is used in its place
 * and no time is lost without a network.
 */
export function imageName(name: string): string {
  return `localhost/longshore/${name}`;
}

/** Definition that the run of an example is created from. */
export function definitionOf({ name, inputSpecs }: Example): Definition {
  return {
    id: name,
    version: '1',
    image: imageName(name),
    input_specs: inputSpecs,
    event_delivery: { topic: TOPIC },
  };
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
