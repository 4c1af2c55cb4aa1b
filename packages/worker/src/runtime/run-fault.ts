/**
 * The run itself is at fault: it would fail in the same way on any other worker. Whatever else a step throws is held
 * against this machine. The message is fit for the run's error_message.
 */
export class RunFault extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'RunFault';
  }
}
