import type { Schemas } from '@longshore/client';
import type { JsonObject } from '@longshore/common/json/json-value';
import type { ListOptions } from '../command-kit.js';
import type { Answer, Session } from '../service/session.js';

type Pages<T> = Pick<ListOptions<T>, 'page' | 'cursorOf' | 'pageSize'>;

/** All versions of all definitions. */
export const DEFINITIONS: Pages<Schemas['OpDefinition']> = {
  page: (client, asked) => client.GET('/definitions', { ...asked }),
  cursorOf: ({ id, version }) => `${id}/${version}`,
};

/** All schedules. */
export const SCHEDULES: Pages<Schemas['Schedule']> = {
  page: (client, asked) => client.GET('/schedules', { ...asked }),
  cursorOf: ({ id }) => id,
  pageSize: 100,
};

/** Stores a version of a definition. @param isTrial only checks it @throws CliError */
export function storeDefinition(
  session: Session,
  value: JsonObject,
  isTrial: boolean,
): Promise<Answer<Schemas['OpDefinition']>> {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the service says what is wrong with it
  const body = value as JsonObject & Schemas['OpDefinitionCreate'];
  const params = { query: isTrial ? { dry_run: true } : {} };
  return session.answer((init) => session.client.POST('/definitions', { params, body, ...init }));
}

/** Stores a schedule. @param isTrial only checks it @throws CliError */
export function storeSchedule(
  session: Session,
  id: string,
  value: JsonObject,
  isTrial: boolean,
): Promise<Answer<Schemas['Schedule']>> {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the service says what is wrong with it
  const body = value as JsonObject & Schemas['SchedulePut'];
  const params = { path: { id }, query: isTrial ? { dry_run: true } : {} };
  return session.answer((init) => session.client.PUT('/schedules/{id}', { params, body, ...init }));
}
