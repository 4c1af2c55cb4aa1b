import { UnsupportedMediaType } from '../../errors/domain-error.js';

const CHARSET = /^charset\s*=\s*"?utf-?8"?$/i;
const PARAMETER = /^[\w!#$%&'*+.^`|~-]+\s*=\s*(?:[\w!#$%&'*+.^`|~-]+|"[^"]*")$/;

/** Requires that a body is declared as JSON in plain UTF-8. @throws UnsupportedMediaType */
export function requireJson(contentType: string | undefined, contentEncoding: string | undefined): void {
  if (!isPlain(contentEncoding)) {
    throw new UnsupportedMediaType('Request body must not have a content encoding');
  }
  if (!isJson(contentType, contentEncoding)) throw new UnsupportedMediaType();
}

/** Whether a body is declared as JSON in plain UTF-8. */
export function isJson(contentType: string | undefined, contentEncoding: string | undefined): boolean {
  if (contentType === undefined || !isPlain(contentEncoding)) return false;
  if (contentType === 'application/json') return true;
  const [type, ...parameters] = contentType.split(';').map((part) => part.trim());
  return (
    type?.toLowerCase() === 'application/json' &&
    parameters.every((parameter) => (/^charset\b/i.test(parameter) ? CHARSET : PARAMETER).test(parameter))
  );
}

function isPlain(contentEncoding: string | undefined): boolean {
  return contentEncoding === undefined || contentEncoding.trim().toLowerCase() === 'identity';
}
