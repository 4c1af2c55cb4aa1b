import { lazyPage } from './shell/lazy-page.js';
import type { PageRoute } from './shell/routes-context.js';

/**
 * Every page of the dashboard. A page is loaded when it is opened. What stands under `nav` is in the navigation,
 * in this order, for keys that may see the page; links elsewhere show up once the page they lead to is in this table.
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
    path: '/audit',
    title: 'Audit',
    scopes: [],
    nav: { icon: 'audit', shortcut: 'a' },
    page: lazyPage(() => import('./pages/audit/audit-page.js')),
  },
];
