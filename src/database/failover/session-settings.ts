/** Settings of a session by name, as `pg_settings` writes names and values. */
export type SessionSettings = Readonly<Record<string, string | number>>;

interface SessionSetting {
  readonly name: string;
  readonly value: string | number;
  readonly reason: string;
}

/**
 * What the service depends on in every session, whatever the server, the database or the role sets. A setting that the
 * server does not know, because it is older, is left out. Times are in milliseconds, 0 is none.
 *
 * `default_transaction_read_only` is read and never set: an administrator who sets it means it.
 */
const SETTINGS: readonly SessionSetting[] = [
  { name: 'statement_timeout', value: 15_000, reason: 'A statement that takes longer blocks others.' },
  { name: 'lock_timeout', value: 3_000, reason: 'A request does not wait for a lock for long.' },
  {
    name: 'idle_in_transaction_session_timeout',
    value: 60_000,
    reason: 'A process that is stalled gives its locks back.',
  },
  { name: 'transaction_timeout', value: 0, reason: 'Retention and feed epochs may take minutes.' },
  { name: 'idle_session_timeout', value: 0, reason: 'Listeners wait for notices without a statement.' },
  {
    name: 'default_transaction_isolation',
    value: 'read committed',
    reason: 'A statement after a lock reads what the holder of the lock has written.',
  },
  { name: 'client_encoding', value: 'UTF8', reason: 'The driver reads and writes UTF-8.' },
  { name: 'DateStyle', value: 'ISO, MDY', reason: 'Times are read in this form alone.' },
  { name: 'TimeZone', value: 'UTC', reason: 'Times are read, and days are cut, in UTC.' },
  { name: 'IntervalStyle', value: 'postgres', reason: 'Intervals are read in this form alone.' },
  { name: 'extra_float_digits', value: 1, reason: 'Numbers come back as they were stored.' },
  { name: 'bytea_output', value: 'hex', reason: 'Bytes are read in this form alone.' },
  { name: 'standard_conforming_strings', value: 'on', reason: 'A backslash in a text is a backslash.' },
];

/** The settings of a session of the service. */
export const SESSION: SessionSettings = Object.fromEntries(SETTINGS.map(({ name, value }) => [name, value]));
