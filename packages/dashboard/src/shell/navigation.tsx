import { Link, useLocation } from 'wouter';
import { Icon } from '../components/controls/icon.js';
import { ROUTES } from '../routes.js';
import { useSession } from '../session/session-context.js';
import styles from './navigation.module.css';

/** Links to the pages that the key may see. */
export function Navigation() {
  const { may } = useSession();
  const [location] = useLocation();
  return (
    <nav aria-label="Pages">
      <ul className={styles.list}>
        {ROUTES.map(({ path, title, scopes, nav }) =>
          nav === undefined || !may(...scopes) ? null : (
            <li key={path}>
              <Link
                href={path}
                className={styles.link}
                aria-current={isWithin(location, path) ? 'page' : undefined}
              >
                <Icon name={nav.icon} />
                {title}
              </Link>
            </li>
          ),
        )}
      </ul>
    </nav>
  );
}

function isWithin(location: string, path: string): boolean {
  return location === path || (path !== '/' && location.startsWith(`${path}/`));
}
