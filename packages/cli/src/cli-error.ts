/** Exit codes of the command line. */
export const EXIT = {
  /** Success; for a followed run: COMPLETED. */
  ok: 0,
  /** Rejected by the service; for a followed run: FAILED or CANCELLED. */
  failed: 1,
  /** Wrong arguments. */
  usage: 2,
  /** The service does not respond, or rejects the key. */
  unreachable: 3,
  /** Ctrl-C (128 + SIGINT). */
  interrupted: 130,
  /** Standard output was closed (128 + SIGPIPE). */
  pipeClosed: 141,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** Ends the program with an exit code and one line on standard error. */
export class CliError extends Error {
  constructor(
    readonly exitCode: ExitCode,
    /** One line, without the program's name. */
    message: string,
    /** Whether a request without a response may have been executed. */
    readonly mayHaveArrived = false,
  ) {
    super(message);
    this.name = 'CliError';
  }
}

/** Wrong arguments. */
export function usageError(message: string): CliError {
  return new CliError(EXIT.usage, message);
}
