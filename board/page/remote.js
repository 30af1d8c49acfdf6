// Remote training on the server that shows this page: sessions, models with their queues, tokens per second. Asked for every
// two seconds while the tab is shown.
import {make, replace} from './dom.js';
import {getJson} from './data.js';
import {short} from './scales.js';
import {say} from './words.js';

const COLUMNS = {
  sessions: ['session_id', 'display_name', 'created', 'silent_seconds', 'models', 'samplers'],
  models: ['model_id', 'rank', 'queued', 'steps', 'tokens', 'tokens_per_second', 'last_request'],
};
const TOTALS = ['sessions', 'models', 'unfinished', 'trained_tokens_per_second', 'sampled_tokens_per_second'];
const textOf = value => typeof value === 'number' ? short(value) : String(value ?? '');

export class Remote {
  constructor() {
    this.totals = make('p', {id: 'remote-totals'});
    this.tables = Object.fromEntries(Object.keys(COLUMNS).map(name => [name, make('table', {id: `remote-${name}`})]));
    this.element = make('section', {class: 'panel', id: 'panel-remote'}, make('h2', {'data-word': 'remote_title'}), this.totals,
      ...Object.entries(this.tables).flatMap(([name, table]) => [make('h3', {'data-word': `remote_${name}`}), table]));
  }

  show() {
    if (this.timer) return;
    this.timer = setInterval(() => this.element.hidden ? this.pause() : this.read(), 2000);
    this.read();
  }
  pause() {
    clearInterval(this.timer);
    this.timer = null;
  }
  rename() { if (this.status) this.draw(); }

  async read() {
    this.status = await getJson('/api/v1/status').catch(() => this.status);
    if (this.status) this.draw();
  }

  draw() {
    replace(this.totals, TOTALS.map(name => `${say(`remote_total_${name}`)}: ${textOf(this.status.totals[name])}`).join(' · '));
    for (const [name, columns] of Object.entries(COLUMNS)) {
      const head = make('tr', {}, ...columns.map(column => make('th', {text: column})));
      const rows = this.status[name].map(row => make('tr', {}, ...columns.map(column => make('td', {text: textOf(row[column])}))));
      replace(this.tables[name], head, ...rows);
    }
  }
}
