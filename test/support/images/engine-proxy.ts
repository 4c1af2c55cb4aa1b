import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

/** A socket in front of the engine's that breaks its connections. */
export class EngineProxy {
  private readonly open = new Set<Socket>();
  private isSilent = false;

  private constructor(
    /** Value for DOCKER_HOST. */
    readonly host: string,
    private readonly server: Server,
  ) {}

  /** @param engine DOCKER_HOST of the engine, a local socket */
  static async start(engine: string): Promise<EngineProxy> {
    const path = join(mkdtempSync(join(tmpdir(), 'longshore-engine-proxy-')), 'docker.sock');
    const server = createServer();
    const proxy = new EngineProxy(`unix://${path}`, server);
    server.on('connection', (socket) => proxy.connect(socket, engine.replace('unix://', '')));
    server.listen(path);
    await once(server, 'listening');
    return proxy;
  }

  /** Breaks all connections. */
  cut(): void {
    for (const socket of this.open) socket.destroy();
  }

  /** From now on nothing is passed on; connections are accepted. */
  silence(): void {
    this.isSilent = true;
    for (const socket of this.open) socket.pause();
  }

  /** Passes on again, what has waited as well. */
  resume(): void {
    this.isSilent = false;
    for (const socket of this.open) socket.resume();
  }

  close(): void {
    this.cut();
    this.server.close();
    rmSync(dirname(this.host.replace('unix://', '')), { recursive: true, force: true });
  }

  private connect(socket: Socket, path: string): void {
    const upstream = connect(path);
    for (const [end, other] of [
      [socket, upstream],
      [upstream, socket],
    ] as const) {
      this.open.add(end);
      end.on('error', () => undefined);
      end.on('close', () => {
        this.open.delete(end);
        other.destroy();
      });
      end.pipe(other);
      if (this.isSilent) end.pause();
    }
  }
}
