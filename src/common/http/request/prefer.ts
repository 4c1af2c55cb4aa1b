import type { ExecutionContext } from '@nestjs/common';
import type { Request } from 'express';
import { createHeaderDecorator } from './handler-inputs.js';

/** True when the client asked for an answer without a body (`Prefer: return=minimal`, RFC 7240). */
export function prefersMinimal(header: string | string[] | undefined): boolean {
  const text = Array.isArray(header) ? header.join(',') : (header ?? '');
  return text.split(/[,;]/).some((part) => /^\s*return\s*=\s*"?minimal"?\s*$/i.test(part));
}

/** Parameter: whether the client prefers an answer without a body. */
export const PrefersMinimal = createHeaderDecorator((_: unknown, context: ExecutionContext): boolean =>
  prefersMinimal(context.switchToHttp().getRequest<Request>().headers['prefer']),
);
