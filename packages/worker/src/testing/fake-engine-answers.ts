import type { IncomingMessage, ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';

export interface EngineCall {
  /** Method and path with `ID` for the container's id: `POST /containers/ID/start`. An import is `POST /images/import`. */
  readonly route: string;
  readonly query: Readonly<Record<string, string>>;
  /** The JSON body, an archive's bytes, or null. */
  readonly body: unknown;
}

export interface FakeContainer {
  readonly id: string;
  readonly create: {
    readonly Image: string;
    readonly Env: readonly string[];
    readonly Labels: Readonly<Record<string, string>>;
    readonly Entrypoint?: readonly string[];
    readonly HostConfig?: { readonly Mounts?: readonly { readonly Target: string }[] };
  };
  state: {
    Running: boolean;
    ExitCode: number;
    OOMKilled: boolean;
    StartedAt?: string;
    FinishedAt?: string;
  };
  /** What was put into it, an archive. */
  files: Buffer;
}

/** @param goOn gives the usual answer */
export type Answer = (response: ServerResponse, call: EngineCall, goOn: () => void) => void;

export function refuse(status: number, message: string): Answer {
  return (response) => json(response, status, { message });
}

/** Destroys the connection. */
export const cut: Answer = (response) => void response.destroy();

/** Never answers. */
export const silence: Answer = () => undefined;

/** The progress report of a pull. */
export function reports(...lines: readonly object[]): Answer {
  return (response) => report(response, ...lines);
}

/** The end of a log with timestamps: an entry for each of the pieces. */
export function logs(...entries: readonly (readonly [time: string, stream: 1 | 2, bytes: string])[]): Answer {
  return (response) => {
    response.writeHead(200);
    for (const [time, stream, bytes] of entries) response.write(frame(stream, `${time} ${bytes}`));
    response.end();
  };
}

/** A frame of an attach stream. */
export function frame(stream: 0 | 1 | 2 | 3, payload: string | Buffer): Buffer {
  const bytes = Buffer.from(payload);
  const header = Buffer.from([stream, 0, 0, 0, 0, 0, 0, 0]);
  header.writeUInt32BE(bytes.length, 4);
  return Buffer.concat([header, bytes]);
}

export function report(response: ServerResponse, ...lines: readonly object[]): void {
  response.writeHead(200, { 'Content-Type': 'application/json' });
  for (const line of lines) response.write(`${JSON.stringify(line)}\r\n`);
  response.end();
}

/** @param stat with the mode of Go */
export function answerStat(response: ServerResponse, stat: object): void {
  const header = Buffer.from(JSON.stringify(stat)).toString('base64');
  response.writeHead(200, { 'X-Docker-Container-Path-Stat': header }).end();
}

export function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body));
}

export function asCreate(body: unknown): FakeContainer['create'] {
  const image: unknown = Reflect.get(Object(body), 'Image');
  const labels: unknown = Reflect.get(Object(body), 'Labels');
  const entrypoint: unknown = Reflect.get(Object(body), 'Entrypoint');
  const env: unknown = Reflect.get(Object(body), 'Env');
  const Env = Array.isArray(env) ? env.map(String) : [];
  const entries = Object.entries(Object(labels)).map(([name, value]) => [name, String(value)]);
  const command = Array.isArray(entrypoint) ? { Entrypoint: entrypoint.map(String) } : {};
  const HostConfig: object = Object(Reflect.get(Object(body), 'HostConfig'));
  return { Image: String(image), Env, Labels: Object.fromEntries(entries), ...command, HostConfig };
}

export async function readBody(request: IncomingMessage): Promise<unknown> {
  const bytes = await buffer(request);
  if (bytes.length === 0) return null;
  return request.headers['content-type'] === 'application/tar' ? bytes : JSON.parse(bytes.toString());
}
