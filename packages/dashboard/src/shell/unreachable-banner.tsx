import { useEffect, useEffectEvent } from 'react';
import { serviceAway, serviceFetch } from '../api/service-fetch.js';
import { Icon } from '../components/controls/icon.js';
import { SERVICE_URL } from '../lib/addresses.js';
import { useStore } from '../lib/store.js';
import styles from './unreachable-banner.module.css';

const TRY_EVERY_MS = 2000;

/**
 * Says that the service is unreachable while it is, and asks for it until it is back. It lies over the page, so nothing moves.
 * @param onBack called when the service answers again
 */
export function UnreachableBanner({ onBack }: { readonly onBack: () => void }) {
  const isAway = useStore(serviceAway);
  const back = useEffectEvent(onBack);
  useEffect(() => {
    if (!isAway) return undefined;
    // Any response shows that the service is reachable again.
    const timer = setInterval(
      () => void serviceFetch(`${SERVICE_URL}/health`).catch(() => undefined),
      TRY_EVERY_MS,
    );
    return () => {
      clearInterval(timer);
      back();
    };
  }, [isAway]);
  return (
    <div className={styles.region} role="status" aria-live="assertive">
      {isAway && (
        <p className={styles.banner}>
          <Icon name="away" />
          Cannot reach the service, trying again. What you see may be out of date.
        </p>
      )}
    </div>
  );
}
