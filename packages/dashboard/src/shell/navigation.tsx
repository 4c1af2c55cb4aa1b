import { Link, useLocation } from 'wouter';
import { Icon } from '../components/controls/icon.js';
import { useSession } from '../session/session-context.js';
import styles from './navigation.module.css';
import { useRoutes } from './routes-context.js';

/** Links to the pages that the key may see. */
export function Navigation() {
  const routes = useRoutes();
  const { may } = useSession();
  const [location] = useLocation();
  return (
    <nav aria-label="Pages">
      <ul className={styles.list}>
        {routes.map(({ path, title, scopes, nav }) =>
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
