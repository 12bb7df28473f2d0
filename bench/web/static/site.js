'use strict';
// Live updates of a run, and keys in lists: j and k move, Enter opens, / goes to the search field.
(() => {
  const live = document.querySelector('[data-live]');
  if (live) {
    const source = new EventSource(live.dataset.live);
    let shown = live.dataset.ended, last = 0, waiting = null;
    const refresh = () => {
      waiting = null; last = Date.now();
      fetch(location.href, { headers: { 'X-Live': '1' } }).then(answer => answer.ok ? answer.text() : null).then(text => {
        if (!text) return;
        const fresh = new DOMParser().parseFromString(text, 'text/html').getElementById('run');
        if (fresh) { live.replaceChildren(...fresh.childNodes); }
      });
    };
    source.addEventListener('state', event => {
      const now = JSON.parse(event.data), stamp = now.state + now.progress.ended;
      if (stamp === shown || waiting) return;
      shown = stamp;
      waiting = setTimeout(refresh, Math.max(0, 1500 - (Date.now() - last)));
    });
    source.addEventListener('end', () => { source.close(); setTimeout(refresh, 600); });
  }
  const soon = document.querySelector('[data-again]');
  if (soon) setTimeout(() => location.reload(), Number(soon.dataset.again));
  const rows = () => [...document.querySelectorAll('tbody[data-keys] tr')];
  let at = -1;
  document.addEventListener('keydown', event => {
    if (event.target.matches?.('input, select, textarea') || event.ctrlKey || event.metaKey || event.altKey) return;
    const list = rows();
    if (event.key === '/') { const field = document.querySelector('input[name=q]'); if (field) { event.preventDefault(); field.focus(); } return; }
    if (!list.length) return;
    if (event.key === 'j' || event.key === 'k') {
      if (list[at]) list[at].classList.remove('at');
      at = Math.min(list.length - 1, Math.max(0, at + (event.key === 'j' ? 1 : -1)));
      list[at].classList.add('at');
      list[at].scrollIntoView({ block: 'nearest' });
    } else if (event.key === 'Enter' && list[at]) { list[at].querySelector('a').click(); }
  });
})();
