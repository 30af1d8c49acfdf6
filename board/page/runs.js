// The list of runs at the side: which are shown, how far they are, and what they are called. The choice is kept in the
// address, so that a link shows the same.
import {swatch} from './chart.js';
import {make, replace} from './dom.js';
import {clock, short} from './scales.js';
import {say} from './words.js';

const COLOURS = 8, DASHES = ['', '6 3', '2 3', '9 3 2 3'];
const MOST_SHOWN = 32;

export class Runs {
  // changed(): other runs are shown.
  constructor(changed) {
    Object.assign(this, {changed, all: [], shown: new Set(), styles: new Map(), items: new Map(), first: true});
    this.list = make('ul', {id: 'run-list'});
    this.element = make('div', {}, make('h2', {'data-word': 'runs'}), this.list);
  }

  // A colour stays with its run, whatever else is shown.
  style(id) {
    if (!this.styles.has(id)) this.styles.set(id, this.styles.size);
    const number = this.styles.get(id);
    return {colour: `var(--line-${number % COLOURS})`, dash: DASHES[Math.floor(number / COLOURS) % DASHES.length]};
  }

  update(summaries) {
    const before = this.ids().join();
    this.all = summaries;
    if (this.first) {
      const wanted = new URLSearchParams(location.search).get('runs');
      const chosen = wanted === null ? summaries.slice(0, COLOURS).map(run => run.id) : wanted.split(',');
      chosen.forEach(id => this.shown.add(id));
      this.first = false;
    } else {
      for (const run of summaries) if (!this.known.has(run.id) && run.state === 'running') this.shown.add(run.id);
    }
    this.known = new Set(summaries.map(run => run.id));
    this.draw();
    if (this.ids().join() !== before) this.changed();
  }

  ids() { return this.all.filter(run => this.shown.has(run.id)).map(run => run.id).slice(0, MOST_SHOWN); }
  get(id) { return this.all.find(run => run.id === id); }

  toggle(id, on) {
    if (on) this.shown.add(id); else this.shown.delete(id);
    const address = new URL(location.href);
    address.searchParams.set('runs', this.ids().join(','));
    history.replaceState(null, '', address);
    this.changed();
  }

  // Items stay where they are while their numbers change, so that a click or the focus is never lost.
  draw() {
    const items = this.all.map(run => this.items.get(run.id) ?? this.item(run.id));
    this.items = new Map(this.all.map((run, i) => [run.id, items[i]]));
    if (items.length !== this.list.children.length || items.some((item, i) => item.element !== this.list.children[i])) {
      replace(this.list, ...items.map(item => item.element));
    }
    this.all.forEach((run, i) => this.fill(items[i], run));
  }

  item(id) {
    const box = make('input', {type: 'checkbox', 'data-run': id, onchange: event => this.toggle(id, event.target.checked)});
    const state = make('span', {}), progress = make('progress', {max: 1}), facts = make('div', {class: 'facts'});
    const element = make('li', {}, make('label', {}, box, swatch(this.style(id)), make('span', {class: 'name', text: id}), state), progress, facts);
    return {element, box, state, progress, facts};
  }

  fill({element, box, state, progress, facts}, run) {
    element.className = `run ${run.state}`;
    element.title = run.directory;
    box.checked = this.shown.has(run.id);
    state.className = `state ${run.state}`;
    state.textContent = say(`state_${run.state}`);
    const total = run.elapsed_seconds + run.remaining_seconds;
    progress.value = run.state === 'done' ? 1 : total > 0 ? run.elapsed_seconds / total : 0;
    progress.setAttribute('aria-label', say('progress'));
    const left = run.state === 'running' && run.remaining_seconds ? `${say('left')} ${clock(run.remaining_seconds)}` : '';
    const judged = run.reward === null ? 'loss' : 'reward';  // a policy's loss is 0 on average by construction
    facts.textContent = [run.step === null ? say('no_steps') : `${say('step')} ${short(run.step)}`,
      run[judged] === null ? '' : `${say(judged)} ${short(run[judged])}`, left].filter(Boolean).join(' · ');
  }
}
