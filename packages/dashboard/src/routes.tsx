import type { Scope } from '@longshore/client/constants';
import type { ComponentType } from 'react';
import type { IconName } from './components/controls/icon.js';
import { lazyPage } from './shell/lazy-page.js';

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

/**
 * Every page of the dashboard. A page is loaded when it is opened. What stands under `nav` is in the navigation,
 * in this order, for keys that may see the page.
 */
export const ROUTES: readonly PageRoute[] = [
  {
    path: '/',
    title: 'Overview',
    scopes: ['client'],
    nav: { icon: 'overview', shortcut: 'o' },
    page: lazyPage(() => import('./pages/overview/overview-page.js')),
  },
  {
    path: '/runs',
    title: 'Runs',
    scopes: ['client'],
    nav: { icon: 'runs', shortcut: 'r' },
    page: lazyPage(() => import('./pages/runs/runs-page.js')),
  },
  {
    path: '/runs/:id',
    title: 'Run',
    scopes: ['client', 'worker'],
    page: lazyPage(() => import('./pages/run/run-page.js')),
  },
  {
    path: '/workers',
    title: 'Workers',
    scopes: ['client'],
    nav: { icon: 'workers', shortcut: 'w' },
    page: lazyPage(() => import('./pages/workers/workers-page.js')),
  },
  {
    path: '/definitions',
    title: 'Definitions',
    scopes: ['client'],
    nav: { icon: 'definitions', shortcut: 'd' },
    page: lazyPage(() => import('./pages/definitions/definitions-page.js')),
  },
  {
    path: '/definitions/:name',
    title: 'Definition',
    scopes: ['client'],
    page: lazyPage(() => import('./pages/definitions/definition-page.js')),
  },
  {
    path: '/schedules',
    title: 'Schedules',
    scopes: ['client'],
    nav: { icon: 'schedules', shortcut: 't' },
    page: lazyPage(() => import('./pages/schedules/schedules-page.js')),
  },
  {
    path: '/schedules/:id',
    title: 'Schedule',
    scopes: ['client'],
    page: lazyPage(() => import('./pages/schedules/schedule-page.js')),
  },
  {
    path: '/groups',
    title: 'Groups',
    scopes: ['client'],
    nav: { icon: 'groups', shortcut: 'u' },
    page: lazyPage(() => import('./pages/groups/groups-page.js')),
  },
  {
    path: '/groups/:id',
    title: 'Group',
    scopes: ['client'],
    page: lazyPage(() => import('./pages/groups/group-page.js')),
  },
  {
    path: '/feed',
    title: 'Feed',
    scopes: ['client'],
    nav: { icon: 'feed', shortcut: 'f' },
    page: lazyPage(() => import('./pages/feed/feed-page.js')),
  },
  {
    path: '/keys',
    title: 'Keys',
    scopes: [],
    nav: { icon: 'keys', shortcut: 'k' },
    page: lazyPage(() => import('./pages/keys/keys-page.js')),
  },
  {
    path: '/secrets',
    title: 'Secrets',
    scopes: [],
    nav: { icon: 'secrets', shortcut: 's' },
    page: lazyPage(() => import('./pages/secrets/secrets-page.js')),
  },
  {
    path: '/webhooks',
    title: 'Webhooks',
    scopes: [],
    nav: { icon: 'webhooks', shortcut: 'h' },
    page: lazyPage(() => import('./pages/webhooks/webhooks-page.js')),
  },
  {
    path: '/webhooks/:id',
    title: 'Webhook',
    scopes: [],
    page: lazyPage(() => import('./pages/webhooks/webhook-page.js')),
  },
  {
    path: '/audit',
    title: 'Audit',
    scopes: [],
    nav: { icon: 'audit', shortcut: 'a' },
    page: lazyPage(() => import('./pages/audit/audit-page.js')),
  },
];
