import { createContext, useContext, type ComponentType } from 'react';
import type { IconName } from '../components/controls/icon.js';
import type { Scope } from '@longshore/client/constants';

/** A page and where it is. */
export interface PageRoute {
  /** Below /ui, such as `/runs/:id`. The page reads its parameters by wouter's `useParams`. */
  readonly path: string;
  /** Of the browser's tab, and in the navigation. */
  readonly title: string;
  /** Keys with any of these may see it, and admins. */
  readonly scopes: readonly Scope[];
  /** Its place in the navigation; the shortcut is `g`, then this letter. */
  readonly nav?: { readonly icon: IconName; readonly shortcut: string };
  readonly page: ComponentType;
}

export const RoutesContext = createContext<readonly PageRoute[]>([]);

/** Every page of the dashboard. */
export function useRoutes(): readonly PageRoute[] {
  return useContext(RoutesContext);
}
