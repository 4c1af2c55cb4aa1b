import { Router } from 'wouter';
import { Toasts } from './components/feedback/toasts.js';
import { DASHBOARD_PATH } from './lib/addresses.js';
import { SessionGate } from './session/session-gate.js';
import { Pages } from './shell/pages.js';
import { Shell } from './shell/shell.js';

/** The dashboard. */
export function App() {
  return (
    <Router base={DASHBOARD_PATH}>
      <SessionGate>
        <Shell>
          <Pages />
        </Shell>
      </SessionGate>
      <Toasts />
    </Router>
  );
}
