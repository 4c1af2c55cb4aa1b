import type { Command } from 'commander';
import { integerOption, several } from './command-kit.js';
import type { FollowOptions } from './follow-run.js';

const MOST_SECONDS = 86_400;

/** What says how a run is followed. */
export interface WatchFlags {
  readonly json?: true;
  /** False: `--no-logs`. */
  readonly logs: boolean;
  readonly timestamps?: true;
  /** Seconds. */
  readonly patience: number;
}

/** What says of what and how a run is made, from an image or from a definition. */
export interface NewRunFlags extends WatchFlags {
  readonly input?: readonly string[];
  readonly inputs?: string;
  readonly outputs?: string;
  readonly priority?: number;
  readonly idempotencyKey?: string;
  readonly wait?: true;
}

/** Adds the options by which a run is followed. */
export function takesWatchFlags(command: Command): Command {
  return command
    .option('--no-logs', 'leave out what the container prints')
    .option('--timestamps', 'put the time before each line of the log')
    .addOption(
      integerOption(
        '--patience <seconds>',
        'how long to wait for a service that went away while a run is followed',
        0,
        MOST_SECONDS,
      ).default(300),
    );
}

/** Adds the options of a new run. */
export function takesNewRunFlags(command: Command): Command {
  return takesWatchFlags(
    command
      .option(
        '-i, --input <name=value>',
        'an input; JSON values are recognised, anything else is text',
        several,
      )
      .option('--inputs <file>', 'a JSON object of inputs, - for standard input; --input goes on top')
      .option('--outputs <file>', 'a JSON object that the container finds in its output file')
      .addOption(integerOption('-p, --priority <n>', 'higher is scheduled first', -(2 ** 31), 2 ** 31 - 1))
      .option(
        '--idempotency-key <key>',
        'the same key makes one run, however often it is sent (else a new one)',
      )
      .option('-w, --wait', 'follow the run; the exit code says how it ended'),
  );
}

/** How to follow a run by these flags. */
export function followOptions({ json, logs, timestamps, patience }: WatchFlags): FollowOptions {
  return {
    json: json === true,
    timestamps: timestamps === true,
    withoutLogs: !logs,
    patienceMs: patience * 1000,
  };
}
