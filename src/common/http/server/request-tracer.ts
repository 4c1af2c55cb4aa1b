import type { IncomingMessage, ServerResponse } from 'node:http';
import { readTraceContext } from '@longshore/common/tracing/trace-context';
import type { Span, Tracing } from '@longshore/common/tracing/tracing';

/** Probes and scrapes. */
const UNTRACED: ReadonlySet<string> = new Set(['/health', '/health/live', '/metrics']);

const METHODS: ReadonlySet<string> = new Set(
  'CONNECT DELETE GET HEAD OPTIONS PATCH POST PUT TRACE'.split(' '),
);

/** Express keeps the route of a request on it. */
type RoutedRequest = IncomingMessage & { readonly route?: { readonly path?: unknown } | undefined };

/**
 * Creates a span for each request that reaches the service, also for refused and aborted ones. The span continues the
 * trace of the request's `traceparent` and is named after the route.
 */
export class RequestTracer {
  constructor(private readonly tracing: Tracing) {}

  /** Begins the span of a request, which ends with the response. @returns undefined for an untraced request */
  begin(request: RoutedRequest, response: ServerResponse, requestId: string): Span | undefined {
    const { headers, httpVersion, method = '', url = '' } = request;
    const query = url.indexOf('?');
    const path = query < 0 ? url : url.slice(0, query);
    if (UNTRACED.has(path)) return undefined;
    const known = METHODS.has(method);
    const span = this.tracing.start(known ? method : 'HTTP', {
      kind: 'server',
      parent: readTraceContext(headers['traceparent'], headers['tracestate']),
      attributes: {
        'http.request.method': known ? method : '_OTHER',
        'http.request.method_original': known ? undefined : method,
        'url.path': path,
        'url.scheme': 'http',
        'network.protocol.version': httpVersion,
        'user_agent.original': headers['user-agent'],
        'longshore.request_id': requestId,
      },
    });
    if (span.isRecorded) response.once('close', () => this.#end(span, request, response));
    return span;
  }

  #end(span: Span, request: RoutedRequest, response: ServerResponse): void {
    const { statusCode, headersSent, writableFinished } = response;
    const route = request.route?.path;
    if (typeof route === 'string') {
      // `/runs/{id}` for `/runs/:id`.
      const template = route.replaceAll(/:(\w+)/g, '{$1}');
      span.rename(`${request.method ?? 'HTTP'} ${template}`);
      span.set({ 'http.route': template });
    }
    if (headersSent) span.set({ 'http.response.status_code': statusCode });
    if (!writableFinished) span.set({ 'longshore.broken_off': true });
    if (headersSent && statusCode >= 500) span.fail(String(statusCode));
    span.end();
  }
}
