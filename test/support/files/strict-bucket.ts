import { createHash, createHmac, hash } from 'node:crypto';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { once } from 'node:events';
import { buffer } from 'node:stream/consumers';

export const BUCKET_KEYS = {
  accessKeyId: 'STRICT',
  secretAccessKey: 'strict-secret',
  sessionToken: undefined,
};

const UNSIGNED = 'UNSIGNED-PAYLOAD';

/**
 * A bucket that does what a real one does and other test servers do not: it checks signed headers, `If-None-Match: *` and
 * `x-amz-checksum-sha256`, by its own computation of signatures, and lists in pages. It takes no parts.
 */
export class StrictBucket {
  readonly objects = new Map<string, { readonly body: Buffer; readonly sha256: string | undefined }>();
  /** Answers of errors to send before real ones. */
  readonly faults: { readonly status: number; readonly code: string }[] = [];
  requests = 0;
  /** From which pages may use it (CORS); undefined: no pages of other origins. */
  origin: string | undefined;

  private constructor(
    private readonly server: Server,
    readonly url: string,
  ) {}

  static async start(): Promise<StrictBucket> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    const bucket = new StrictBucket(
      server,
      `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`,
    );
    server.on('request', (request: IncomingMessage, response) => {
      const answered = bucket.#answer(request);
      void answered.then(({ status, headers = {}, body = '' }) =>
        response
          .writeHead(status, { ...headers, ...bucket.#cors() })
          .end(request.method === 'HEAD' ? undefined : body),
      );
    });
    return bucket;
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    this.server.close();
    await once(this.server, 'close');
  }

  #cors(): Record<string, string> {
    if (this.origin === undefined) return {};
    return {
      'Access-Control-Allow-Origin': this.origin,
      'Access-Control-Allow-Methods': 'GET, PUT',
      'Access-Control-Allow-Headers': '*',
      'Access-Control-Expose-Headers': 'ETag',
    };
  }

  async #answer(
    request: IncomingMessage,
  ): Promise<{ status: number; headers?: Record<string, string>; body?: string | Buffer }> {
    const body = await buffer(request);
    this.requests += 1;
    if (request.method === 'OPTIONS') return { status: this.origin === undefined ? 403 : 204 };
    const fault = this.faults.shift();
    if (fault !== undefined) return refuse(fault.status, fault.code);
    if (!isSigned(request)) return refuse(403, 'SignatureDoesNotMatch');
    const { pathname, searchParams } = new URL(request.url ?? '', this.url);
    if (searchParams.has('list-type')) return { status: 200, body: this.#list(pathname, searchParams) };
    const key = decodeURIComponent(pathname);
    const object = this.objects.get(key);
    const checksum = request.headers['x-amz-checksum-sha256']?.toString();
    switch (String(request.method)) {
      case 'PUT':
        if (request.headers['if-none-match'] === '*' && object !== undefined)
          return refuse(412, 'PreconditionFailed');
        if (checksum !== undefined && checksum !== createHash('sha256').update(body).digest('base64')) {
          return refuse(400, 'BadDigest');
        }
        this.objects.set(key, { body, sha256: checksum });
        return { status: 200, headers: { ETag: etagOf(body) } };
      case 'DELETE':
        this.objects.delete(key);
        return { status: 204 };
      default: {
        if (object === undefined) return refuse(404, 'NoSuchKey');
        const wantsSum = request.headers['x-amz-checksum-mode'] === 'ENABLED' && object.sha256 !== undefined;
        const [disposition, type] = ['disposition', 'type'].map((name) =>
          searchParams.get(`response-content-${name}`),
        );
        const headers = {
          ...(disposition && { 'Content-Disposition': disposition }),
          ...(type && { 'Content-Type': type }),
          ETag: etagOf(object.body),
          'Content-Length': String(object.body.length),
          'Last-Modified': new Date(0).toUTCString(),
          ...(wantsSum && { 'x-amz-checksum-sha256': object.sha256 }),
        };
        return { status: 200, headers, body: object.body };
      }
    }
  }

  #list(bucket: string, query: URLSearchParams): string {
    const keys = [...this.objects.keys()]
      .map((path) => path.slice(bucket.length + 1))
      .filter((key) => key.startsWith(query.get('prefix') ?? '') && key > (query.get('start-after') ?? ''))
      .toSorted();
    const page = keys.slice(0, Number(query.get('max-keys')));
    const contents = page.map((key) => {
      const body = this.objects.get(`${bucket}/${key}`)?.body ?? Buffer.alloc(0);
      const etag = escape(etagOf(body));
      return `<Contents><Key>${escape(key)}</Key><ETag>${etag}</ETag><Size>${body.length}</Size></Contents>`;
    });
    const isTruncated = keys.length > page.length;
    return `<ListBucketResult xmlns="x"><IsTruncated>${isTruncated}</IsTruncated>${contents.join('')}</ListBucketResult>`;
  }
}

/** A text within an element, in another way than ours. */
function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}

function refuse(status: number, code: string): { status: number; body: string } {
  return {
    status,
    body: `<?xml version="1.0"?><Error><Code>${code}</Code><Message>secret words</Message></Error>`,
  };
}

function etagOf(body: Buffer): string {
  return `"${hash('md5', body)}"`;
}

/** Whether the query has the signature of method, path, query and signed headers. */
function isSigned({ method, url = '', headers }: IncomingMessage): boolean {
  const [path, query = ''] = url.split('?');
  const parameters = query.split('&');
  const valueOf = (name: string): string =>
    decodeURIComponent(parameters.find((one) => one.startsWith(`${name}=`))?.slice(name.length + 1) ?? '');
  const names = valueOf('X-Amz-SignedHeaders').split(';');
  const canonical = [
    method,
    path,
    parameters
      .filter((one) => !one.startsWith('X-Amz-Signature='))
      .toSorted()
      .join('&'),
    ...names.map((name) => `${name}:${String(headers[name] ?? '').trim()}`),
    '',
    names.join(';'),
    UNSIGNED,
  ].join('\n');
  const scope = valueOf('X-Amz-Credential').split('/').slice(1);
  const toSign = ['AWS4-HMAC-SHA256', valueOf('X-Amz-Date'), scope.join('/'), hash('sha256', canonical)].join(
    '\n',
  );
  const key = scope.reduce<Buffer | string>(
    (secret, part) => createHmac('sha256', secret).update(part).digest(),
    `AWS4${BUCKET_KEYS.secretAccessKey}`,
  );
  return createHmac('sha256', key).update(toSign).digest('hex') === valueOf('X-Amz-Signature');
}
