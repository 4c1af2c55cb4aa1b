import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { Router } from 'wouter';
import { Toasts } from './components/feedback/toasts.js';
import { DASHBOARD_PATH } from './lib/addresses.js';
import { SessionGate } from './session/session-gate.js';
import { Pages } from './shell/pages.js';
import { Shell } from './shell/shell.js';
import './styles/base.css';
import './styles/tokens.css';

const root = document.getElementById('root');
if (root === null) throw new Error('the page has no place for the dashboard');
createRoot(root).render(
  <StrictMode>
    <App />
  </StrictMode>,
);

/** The dashboard. */
function App() {
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
