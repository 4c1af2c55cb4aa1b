// Runs before the first paint; ui/src/shell/theme.ts writes what is read here.
(() => {
  try {
    const theme = localStorage.getItem('longshore.theme');
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
  } catch {
    // Storage is switched off: the system's theme it is.
  }
})();
