'use strict';
// Live updates of a run, and keys in lists: j and k move, Enter opens, / goes to the search field.
(() => {
  // Change a part of the page into a fresh one and leave alone what is equal: opened details, focus and selection stay.
  const morph = (old, fresh) => {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || (old.id || '') !== (fresh.id || '')) { old.replaceWith(fresh); return; }
    if (old.nodeType !== Node.ELEMENT_NODE) { old.data = fresh.data; return; }
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && name !== 'open' && name !== 'class') old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) if (name !== 'open' && old.getAttribute(name) !== value) old.setAttribute(name, value);
    const [was, now] = [[...old.childNodes], [...fresh.childNodes]];
    now.forEach((child, at) => was[at] ? morph(was[at], child) : old.append(child));
    was.slice(now.length).forEach(child => child.remove());
  };
  const refresh = id => fetch(location.href, { headers: { 'X-Live': '1' } }).then(answer => answer.ok ? answer.text() : null).then(text => {
    if (!text) return;
    const page = new DOMParser().parseFromString(text, 'text/html'), fresh = page.getElementById(id), old = document.getElementById(id);
    if (fresh && old) { morph(old, fresh); document.title = page.title; }
  }).catch(() => {});
  const live = document.querySelector('[data-live]');
  if (live) {
    let shown = live.dataset.ended, last = 0, waiting = null;
    const soon = () => { waiting = null; last = Date.now(); refresh('run'); };
    const follow = () => {
      if (document.hidden) { setTimeout(follow, 4000); return; }
      const source = new EventSource(live.dataset.live);
      source.addEventListener('state', event => {
        const now = JSON.parse(event.data), stamp = now.state + now.progress.ended;
        if (stamp === shown || waiting) return;
        shown = stamp;
        waiting = setTimeout(soon, Math.max(0, 1500 - (Date.now() - last)));
      });
      const was = live.dataset.ended;
      source.addEventListener('end', () => { source.close(); if (shown !== was || live.querySelector('[data-busy]')) setTimeout(soon, 600); setTimeout(follow, 4000); });
      source.addEventListener('error', () => { if (source.readyState === EventSource.CLOSED) setTimeout(follow, 8000); });
    };
    follow();
  }
  const list = document.querySelector('[data-poll]');
  if (list) {
    const again = () => setTimeout(() => (document.hidden ? Promise.resolve() : refresh('runs')).then(again), Number(list.dataset.poll));
    again();
  }
  document.addEventListener('change', event => { if (event.target.matches?.('select[data-submit]')) event.target.form.requestSubmit(); });
  const soon = document.querySelector('[data-again]');
  if (soon) setTimeout(() => location.reload(), Number(soon.dataset.again));
  const rows = () => [...document.querySelectorAll('tbody[data-keys] tr')];
  let at = -1;
  document.addEventListener('keydown', event => {
    if (event.target.matches?.('input, select, textarea') || event.ctrlKey || event.metaKey || event.altKey) return;
    const pressed = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (pressed) { pressed.click(); return; }
    const list = rows();
    if (event.key === '/') { const field = document.querySelector('input[name=q]'); if (field) { event.preventDefault(); field.focus(); } return; }
    const step = { j: 'next', k: 'prev', u: 'up' }[event.key], link = step && !list.length && document.querySelector(`a[rel=${step}]`);
    if (link) { link.click(); return; }
    if (!list.length) return;
    if (event.key === 'j' || event.key === 'k') {
      if (list[at]) list[at].classList.remove('at');
      at = Math.min(list.length - 1, Math.max(0, at + (event.key === 'j' ? 1 : -1)));
      list[at].classList.add('at');
      list[at].scrollIntoView({ block: 'nearest' });
    } else if (event.key === 'Enter' && list[at]) { list[at].querySelector('a').click(); }
  });
})();
