/** Exit codes of the command line. */
export const EXIT = {
  /** Done; of a run that was followed: COMPLETED. */
  ok: 0,
  /** The service refused it; of a run that was followed: FAILED or CANCELLED. */
  failed: 1,
  /** The arguments cannot be understood. */
  usage: 2,
  /** The service gives no answer, or refuses the key. */
  unreachable: 3,
  /** Ctrl-C, as shells count it. */
  interrupted: 130,
  /** Nobody reads standard output any more, as shells count it. */
  pipeClosed: 141,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** Ends the program with a code, after one line on standard error. */
export class CliError extends Error {
  constructor(
    readonly exitCode: ExitCode,
    /** One line for people, without the program's name. */
    message: string,
    /** Whether a request that got no answer may have been carried out. */
    readonly mayHaveArrived = false,
  ) {
    super(message);
    this.name = 'CliError';
  }
}

/** The arguments cannot be understood. */
export function usageError(message: string): CliError {
  return new CliError(EXIT.usage, message);
}
