import type { LineOutput } from '@longshore/common/line-output';
import { Counter, Gauge, type Registry } from 'prom-client';

/** Adds the metrics of this process's log. */
export function measureLog(registry: Registry, output: Pick<LineOutput, 'dropped' | 'waitingBytes'>): void {
  const registers = [registry];
  const dropped: Counter = new Counter({
    name: 'longshore_log_lines_dropped_total',
    help: 'Log lines dropped because standard output could not be written',
    registers,
    collect: (): void => {
      dropped.reset();
      dropped.inc(output.dropped);
    },
  });
  const waiting: Gauge = new Gauge({
    name: 'longshore_log_waiting_bytes',
    help: 'Bytes of log lines that wait until standard output can be written',
    registers,
    collect: (): void => waiting.set(output.waitingBytes),
  });
}
