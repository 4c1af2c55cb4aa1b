import type { Output } from '../terminal/output.js';
import { size } from '../terminal/table.js';

/** Between two drawings of the line. */
const EVERY_MS = 100;

/** The progress line of a file on its way. */
export class TransferLine {
  private drawnAt = 0;

  constructor(
    private readonly live: Output['live'],
    private readonly title: string,
    private readonly name: string,
    private readonly bytes: number,
  ) {}

  moved(bytes: number): void {
    const now = Date.now();
    if (now - this.drawnAt < EVERY_MS) return;
    this.drawnAt = now;
    const progress = this.bytes === 0 ? 100 : Math.floor((100 * bytes) / this.bytes);
    const detail = `${this.name}  ${size(bytes)} of ${size(this.bytes)}`;
    this.live.set({ title: this.title, colour: 'cyan', progress, detail });
  }

  end(): void {
    this.live.clear();
  }
}
