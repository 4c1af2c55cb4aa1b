import { ICON_URL } from '../lib/addresses.js';
import styles from './logo.module.css';

/** Name and sign of the product. */
export function Logo() {
  return (
    <span className={styles.logo}>
      <img src={ICON_URL} alt="" width="22" height="22" />
      Longshore
    </span>
  );
}
