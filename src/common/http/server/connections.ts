import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Budgets } from '../../../config/budgets.js';
import { UnreadResponses } from './unread-responses.js';

/** Event of a server: a connection was closed because of the limit of a setting, whose name is the argument. */
export const CUT_OFF = 'cutOff';

export type ConnectionBudgets = Pick<
  Budgets,
  'maxConnections' | 'connectionRequests' | 'writeTimeout' | 'unreadBytes'
>;

/** Pipelined requests that may wait in the process; the connection of one more is closed. */
const MAX_WAITING = 1024;

interface Connection {
  /** Requests whose responses are not sent completely. */
  inProgress: number;
  /** Starts the requests behind them. */
  readonly waiting: (() => void)[];
}

/**
 * Bounds what the connections of a server cost: their number, the requests in progress of each, the time without progress
 * of a response, and the bytes of responses that are not read.
 */
export class Connections {
  readonly unread: UnreadResponses;
  readonly #connections = new WeakMap<Socket, Connection>();
  #waiting = 0;

  constructor(
    private readonly server: Server,
    private readonly budgets: ConnectionBudgets,
  ) {
    this.unread = new UnreadResponses(budgets.unreadBytes, () =>
      server.emit(CUT_OFF, 'SERVICE_UNREAD_BYTES'),
    );
    server.maxConnections = budgets.maxConnections;
    server.on('drop', () => {
      server.emit(CUT_OFF, 'SERVICE_MAX_CONNECTIONS');
      server.closeIdleConnections();
    });
    server.setTimeout(budgets.writeTimeout * 1000, (socket) => this.#onSilence(socket));
  }

  /**
   * Starts a request: at once, or, if the connection has its number of requests in progress, when an earlier response is
   * sent. Node would start all pipelined requests at once. While requests wait, the connection is not read.
   */
  start({ socket }: IncomingMessage, response: ServerResponse, begin: () => void): void {
    const connection = this.#find(socket);
    if (connection.inProgress < this.budgets.connectionRequests) {
      this.#begin(socket, connection, response, begin);
      return;
    }
    connection.waiting.push(() => this.#begin(socket, connection, response, begin));
    this.#waiting += 1;
    socket.pause();
    if (this.#waiting <= MAX_WAITING || socket.destroyed) return;
    this.server.emit(CUT_OFF, 'SERVICE_CONNECTION_REQUESTS');
    socket.destroy();
  }

  #begin(socket: Socket, connection: Connection, response: ServerResponse, begin: () => void): void {
    connection.inProgress += 1;
    response.once('close', () => {
      connection.inProgress -= 1;
      const next = socket.destroyed ? undefined : connection.waiting.shift();
      if (next === undefined) return;
      this.#waiting -= 1;
      if (connection.waiting.length === 0) socket.resume();
      next();
    });
    begin();
  }

  #find(socket: Socket): Connection {
    let connection = this.#connections.get(socket);
    if (connection === undefined) {
      const { waiting } = (connection = { inProgress: 0, waiting: [] });
      this.#connections.set(socket, connection);
      // Node resumes the socket to read, or to drop, the bodies of the requests in progress.
      socket.on('resume', () => {
        if (waiting.length > 0) socket.pause();
      });
      socket.once('close', () => {
        this.#waiting -= waiting.splice(0).length;
      });
    }
    return connection;
  }

  /** Nothing was received or sent for a while: the keep-alive time is over, or a client does not read. */
  #onSilence(socket: Socket): void {
    const isUnread = socket.writableLength > 0;
    if (!isUnread && (this.#connections.get(socket)?.inProgress ?? 0) > 0) return;
    if (isUnread) this.server.emit(CUT_OFF, 'SERVICE_WRITE_TIMEOUT');
    socket.destroy();
  }
}
