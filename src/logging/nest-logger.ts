import type { LoggerService } from '@nestjs/common';
import type { Log } from './logger.js';

/** What Nest hands over beside the message: an optional stack and the context as the last string. */
interface NestDetails {
  readonly context: string | undefined;
  readonly stack: string | undefined;
  readonly rest: readonly unknown[];
}

function readDetails(parameters: readonly unknown[]): NestDetails {
  const rest = [...parameters];
  const last = rest.at(-1);
  const isContext = typeof last === 'string' && !last.includes('\n');
  const context = isContext ? last : undefined;
  if (isContext) {
    rest.pop();
  }
  const stackAt = rest.findIndex((value) => typeof value === 'string' && /\n\s+at /.test(value));
  const stack = stackAt === -1 ? undefined : String(rest[stackAt]);
  return { context, stack, rest: rest.filter((value, index) => index !== stackAt && value !== undefined) };
}

/** Writes Nest's own messages into our log: its chatter at debug level, its warnings and errors as they are. */
export class NestLogger implements LoggerService {
  constructor(private readonly target: Log) {}

  log(message: unknown, ...parameters: unknown[]): void {
    this.write('debug', message, parameters);
  }

  debug(message: unknown, ...parameters: unknown[]): void {
    this.write('debug', message, parameters);
  }

  verbose(message: unknown, ...parameters: unknown[]): void {
    this.write('debug', message, parameters);
  }

  warn(message: unknown, ...parameters: unknown[]): void {
    this.write('warn', message, parameters);
  }

  error(message: unknown, ...parameters: unknown[]): void {
    this.write('error', message, parameters);
  }

  fatal(message: unknown, ...parameters: unknown[]): void {
    this.write('error', message, parameters);
  }

  private write(level: 'debug' | 'warn' | 'error', message: unknown, parameters: readonly unknown[]): void {
    const { context, stack, rest } = readDetails(parameters);
    const log = context === undefined ? this.target : this.target.child(context);
    const fields = {
      ...(message instanceof Error ? { error: message } : {}),
      ...(typeof message !== 'string' && !(message instanceof Error) ? { details: message } : {}),
      ...(stack === undefined ? {} : { stack }),
      ...(rest.length === 0 ? {} : { parameters: rest }),
    };
    log[level](textOf(message), fields);
  }
}

function textOf(message: unknown): string {
  if (message instanceof Error) {
    return message.message;
  }
  return typeof message === 'string' ? message : 'Message of the framework';
}
