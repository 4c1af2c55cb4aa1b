/** A server process could not start when the service started; the message is what it said. */
export class ServerProcessFailed extends Error {
  constructor(
    /** Lines for people. */
    readonly problems: readonly string[],
    readonly exitCode: number,
  ) {
    super(problems.join('\n'));
    this.name = 'ServerProcessFailed';
  }
}
