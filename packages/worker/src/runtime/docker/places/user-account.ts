import type Dockerode from 'dockerode';
import { CONTAINER_FOLDER } from '../../container-places.js';
import { RunFault } from '../../runtime.js';
import { follow, type Lookup } from './follow.js';
import { onlyFile } from './only-file.js';

/** The home of users for whom neither run nor image names one. */
const HOME_FOLDER = `${CONTAINER_FOLDER}/home`;

const PASSWD = '/etc/passwd';
const MAX_PASSWD_BYTES = 1024 * 1024;

/** What an image says of a user. */
export interface Account {
  readonly hasName: boolean;
  /** Whether it names a folder as home that the image has, and not the root. */
  readonly hasHome: boolean;
}

/** Looks up a user in an image. @param lookup into a container of it, in which nothing is mounted. @throws Error of the engine */
export async function readAccount(
  container: Dockerode.Container,
  uid: number,
  lookup: Lookup,
  abortSignal: AbortSignal,
): Promise<Account> {
  const { kind, place } = await follow(PASSWD, lookup);
  if (kind !== 'file') return { hasName: false, hasHome: false };
  const archive = await container.getArchive({ path: place, abortSignal });
  const content = await onlyFile(
    archive,
    MAX_PASSWD_BYTES,
    (why) => new RunFault(`The file '${PASSWD}' of the image cannot be used: ${why}`),
  );
  const entry = content
    .toString()
    .split('\n')
    .map((line) => line.split(':'))
    .find(([name, , number]) => name !== '' && number === String(uid));
  const home = entry?.[5] ?? '';
  const isNamed = home.startsWith('/') && (await follow(home, lookup)).kind === 'folder';
  return { hasName: entry !== undefined, hasHome: isNamed && !/^\/+$/.test(home) };
}

/**
 * The variables of a user whom the run, or the operator, has chosen by a number, where neither the run nor the image has them.
 * @param isTaken whether run or image have a variable
 */
export function accountVariables(
  uid: number,
  { hasName, hasHome }: Account,
  isTaken: (name: string) => boolean,
): Readonly<Record<string, string>> {
  const wanted = {
    ...(!hasHome && { HOME: HOME_FOLDER }),
    ...(!hasName && { USER: `user${uid}`, LOGNAME: `user${uid}` }),
  };
  return Object.fromEntries(Object.entries(wanted).filter(([name]) => !isTaken(name)));
}

/** The folders that are made for what {@link accountVariables} has returned. */
export function homesOf({ HOME }: Readonly<Record<string, string>>): string[] {
  return HOME === undefined ? [] : [HOME];
}
