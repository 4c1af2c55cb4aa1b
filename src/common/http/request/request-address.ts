import type { ExecutionContext } from '@nestjs/common';
import type { Request } from 'express';
import { createHeaderDecorator } from './handler-inputs.js';

/**
 * Parameter: the address to which the request came, such as `https://host:port`, as a proxy in front of the service says
 * (`X-Forwarded-Proto`, `X-Forwarded-Host`). It is only for URLs that the client itself gets.
 */
export const RequestAddress = createHeaderDecorator((_: unknown, context: ExecutionContext): string => {
  const request = context.switchToHttp().getRequest<Request>();
  const forwarded = (name: string): string | undefined => request.get(name)?.split(',')[0]?.trim();
  const scheme = forwarded('X-Forwarded-Proto');
  const host = forwarded('X-Forwarded-Host') ?? request.headers.host ?? '';
  return `${scheme === 'https' || scheme === 'http' ? scheme : request.protocol}://${host}`;
});
