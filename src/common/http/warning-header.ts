import type { ApiResponseOptions } from '@nestjs/swagger';
import { toWarnings } from '@longshore/common/warnings';
import type { Response } from 'express';

/** Documents the header that {@link sendWarnings} sets. */
export const WARNING_HEADER = {
  Warning: {
    description: '`299 - "text"` (RFC 7234) for each value that may be a mistake, with its place.',
    schema: { type: 'string' },
  },
} as const satisfies ApiResponseOptions['headers'];

/** Tells of values that are accepted and may be mistakes. */
export function sendWarnings(response: Response, texts: readonly string[]): void {
  if (texts.length > 0) response.setHeader('Warning', toWarnings(texts));
}
