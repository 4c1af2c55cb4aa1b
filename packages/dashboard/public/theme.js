// Runs before the first paint; packages/dashboard/src/shell/theme.ts writes what is read here.
(() => {
  // The browser may request it after the page has changed its address, which a relative link would follow.
  const icon = document.querySelector('link[rel=icon]');
  icon.setAttribute('href', icon.href);
  try {
    const theme = localStorage.getItem('longshore.theme');
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
  } catch {
    // Storage is switched off: the system's theme it is.
  }
})();
