import { inspect } from 'node:util';
import type { LoggerService } from '@nestjs/common';
import type { Log } from './logger.js';

/** Contexts of Nest's own messages about its start, which go to debug level. */
const STARTUP_CONTEXTS: ReadonlySet<string | undefined> = new Set([
  'InstanceLoader',
  'NestApplication',
  'NestFactory',
  'RouterExplorer',
  'RoutesResolver',
]);

/** Writes the lines of Nest's `Logger` into our log. Plain objects after the message become fields of the line. */
export class NestLogger implements LoggerService {
  constructor(private readonly target: Log) {}

  log(message: unknown, ...parameters: unknown[]): void {
    this.#write('info', message, parameters);
  }

  debug(message: unknown, ...parameters: unknown[]): void {
    this.#write('debug', message, parameters);
  }

  verbose(message: unknown, ...parameters: unknown[]): void {
    this.#write('debug', message, parameters);
  }

  warn(message: unknown, ...parameters: unknown[]): void {
    this.#write('warn', message, parameters);
  }

  error(message: unknown, ...parameters: unknown[]): void {
    this.#write('error', message, parameters);
  }

  fatal(message: unknown, ...parameters: unknown[]): void {
    this.#write('error', message, parameters);
  }

  #write(level: 'debug' | 'info' | 'warn' | 'error', message: unknown, parameters: readonly unknown[]): void {
    const { context, stack, rest } = readDetails(parameters);
    const log = context === undefined ? this.target : this.target.child(context);
    const others = rest.filter((value) => !isFields(value));
    const fields = {
      ...Object.assign({}, ...rest.filter(isFields)),
      ...(message instanceof Error ? { error: message } : {}),
      ...(typeof message === 'object' && !(message instanceof Error) ? { details: message } : {}),
      ...(stack === undefined ? {} : { stack }),
      ...(others.length === 0 ? {} : { parameters: others }),
    };
    log[level === 'info' && STARTUP_CONTEXTS.has(context) ? 'debug' : level](textOf(message), fields);
  }
}

/** Nest's Logger passes objects, an optional stack, and the context as the last string. */
function readDetails(parameters: readonly unknown[]) {
  const rest = [...parameters];
  const last = rest.at(-1);
  const isContext = typeof last === 'string' && !last.includes('\n');
  const context = isContext ? last : undefined;
  if (isContext) rest.pop();
  const stackAt = rest.findIndex((value) => typeof value === 'string' && /\n\s+at /.test(value));
  const stack = stackAt === -1 ? undefined : String(rest[stackAt]);
  return { context, stack, rest: rest.filter((value, index) => index !== stackAt && value !== undefined) };
}

function isFields(value: unknown): value is object {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

function textOf(message: unknown): string {
  if (message instanceof Error) return message.message;
  if (typeof message === 'string') return message;
  return typeof message === 'object' ? 'Object' : inspect(message);
}
