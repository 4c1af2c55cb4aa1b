import { createContext, useContext } from 'react';
import type { Scope } from '@longshore/client/constants';

/** Who is signed in. */
export interface Session {
  readonly apiKey: string;
  readonly name: string;
  /** Whether the key has one of the scopes; `admin` includes the others. */
  readonly may: (...scopes: readonly Scope[]) => boolean;
  readonly signOut: () => void;
  /** Call it when the service refuses the key; queries and mutations do so by themselves. */
  readonly refuseKey: () => void;
}

export const SessionContext = createContext<Session | null>(null);

/** Who is signed in. @throws Error outside the signed-in part of the page */
export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === null) throw new Error('no user is signed in');
  return session;
}
