import type { ChildProcess } from 'node:child_process';

/**
 * Watches the connections that node:cluster hands to a server process, one after the other. It forgets the one that the
 * process had not taken yet when it died: nobody would read or close that, and its client would wait for ever.
 * @returns closes that one; to be called when the process has ended. A connection that was taken is closed here already,
 * which makes this harmless
 */
export function watchHandOver(process: ChildProcess): () => void {
  let handed: unknown;
  process.send = new Proxy(process.send.bind(process), {
    apply: (send, _this, args: unknown[]): unknown => {
      if (args[1] !== undefined && args[1] !== null) handed = args[1];
      return Reflect.apply(send, undefined, args);
    },
  });
  return () => {
    if (canClose(handed)) handed.close();
    handed = undefined;
  };
}

function canClose(handle: unknown): handle is { close(): void } {
  return (
    typeof handle === 'object' && handle !== null && 'close' in handle && typeof handle.close === 'function'
  );
}
