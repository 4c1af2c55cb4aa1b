const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** `12 s ago`, `3 min ago`, `in 2 h`, `5 d ago`. @param ms time since then; negative: time until then */
export function formatAge(ms: number): string {
  const size = Math.abs(ms);
  if (size < SECOND) return 'now';
  const text = roughly(size);
  return ms < 0 ? `in ${text}` : `${text} ago`;
}

function roughly(ms: number): string {
  if (ms < MINUTE) return `${Math.floor(ms / SECOND)} s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min`;
  if (ms < 2 * DAY) return `${Math.floor(ms / HOUR)} h`;
  return `${Math.floor(ms / DAY)} d`;
}

/** `850 ms`, `4.2 s`, `3 min 07 s`, `2 h 15 min`, `3 d 4 h`. */
export function formatDuration(ms: number): string {
  if (ms < SECOND) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 10 * SECOND) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  if (ms < MINUTE) return `${Math.floor(ms / SECOND)} s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min ${two((ms % MINUTE) / SECOND)} s`;
  if (ms < DAY) return `${Math.floor(ms / HOUR)} h ${two((ms % HOUR) / MINUTE)} min`;
  return `${Math.floor(ms / DAY)} d ${Math.floor((ms % DAY) / HOUR)} h`;
}

function two(value: number): string {
  return String(Math.floor(value)).padStart(2, '0');
}

/** `512 MB`, `15.6 GB`, `1.5 TB`. @param mb megabytes of 1024 kB */
export function formatMb(mb: number): string {
  if (mb < 1024) return `${trimmed(mb)} MB`;
  if (mb < 1024 * 1024) return `${trimmed(mb / 1024)} GB`;
  return `${trimmed(mb / 1024 / 1024)} TB`;
}

/** `980 B`, `64 kB`, `1.2 MB`. */
export function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1024 * 1024) return `${trimmed(bytes / 1024)} kB`;
  return formatMb(bytes / 1024 / 1024);
}

/** `12,345`. */
export function formatCount(count: number): string {
  return count.toLocaleString('en-US');
}

/** `1 run`, `12,345 runs`. */
export function countRuns(count: number): string {
  return `${formatCount(count)} ${count === 1 ? 'run' : 'runs'}`;
}

/** The exact time, local and in UTC, for titles. */
export function formatExact(iso: string): string {
  const date = new Date(iso);
  const local = date.toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'long' });
  return `${local}\n${date.toISOString()}`;
}

/** A time as a clock of a zone shows it: `Sun, 29 Mar 2026, 03:30 CEST`; of a zone that this browser does not know in UTC. */
export function formatZoned(iso: string, zone: string): string {
  try {
    return new Date(iso).toLocaleString('en-GB', {
      timeZone: zone,
      weekday: 'short',
      year: 'numeric',
      month: 'short',
      day: 'numeric',
      hour: '2-digit',
      minute: '2-digit',
      ...(iso.slice(17, 19) !== '00' && { second: '2-digit' }),
      timeZoneName: 'short',
    });
  } catch {
    return formatZoned(iso, 'UTC');
  }
}

/** The first eight characters tell runs apart in a list; the last ones are what differs between runs of one moment. */
export function shortId(id: string): string {
  return id.length === 36 ? `${id.slice(0, 8)}…${id.slice(-4)}` : id;
}

function trimmed(value: number): string {
  return value >= 100 ? String(Math.round(value)) : String(Math.round(value * 10) / 10);
}
