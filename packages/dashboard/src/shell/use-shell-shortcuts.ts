import { useEffect, useEffectEvent, useRef } from 'react';
import { useLocation } from 'wouter';
import { ROUTES } from '../routes.js';
import { useSession } from '../session/session-context.js';
import { isTaken } from './shortcuts.js';

/** How long after `g` the second letter counts, in milliseconds. */
const SEQUENCE_MS = 1500;

/** The keys that work on every page: `?` help, `/` search, `g` and a letter to go to a page. */
export function useShellShortcuts(openHelp: () => void): void {
  const { may } = useSession();
  const [, navigate] = useLocation();
  const goAt = useRef(Number.NEGATIVE_INFINITY);

  const press = useEffectEvent((event: KeyboardEvent) => {
    if (isTaken(event)) return;
    const isSecond = event.timeStamp - goAt.current < SEQUENCE_MS;
    goAt.current = Number.NEGATIVE_INFINITY;
    if (isSecond) {
      const route = ROUTES.find(({ nav, scopes }) => nav?.shortcut === event.key && may(...scopes));
      if (route === undefined) return;
      event.preventDefault();
      navigate(route.path);
    } else if (event.key === 'g') {
      goAt.current = event.timeStamp;
    } else if (event.key === '?') {
      event.preventDefault();
      openHelp();
    } else if (event.key === '/') {
      const search = document.querySelector<HTMLInputElement>('[data-page-search]');
      if (search === null) return;
      event.preventDefault();
      search.focus();
      search.select();
    }
  });
  useEffect(() => {
    // Behind the listeners of pages, whose keys come first.
    const listen = (event: KeyboardEvent): void => press(event);
    window.addEventListener('keydown', listen);
    return () => window.removeEventListener('keydown', listen);
  }, []);
}
