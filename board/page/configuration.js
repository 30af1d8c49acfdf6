// The configuration of a run, and where another one's differs.
import {make, replace} from './dom.js';
import {getJson} from './data.js';
import {say} from './words.js';

// [key, value of a, value of b] in the order of a, then what only b has; b: null if there is no other.
export function joined(a, b) {
  const other = new Map(b || []), rows = a.map(([key, value]) => [key, value, b ? other.get(key) ?? null : null]);
  const known = new Set(a.map(([key]) => key));
  return [...rows, ...(b || []).filter(([key]) => !known.has(key)).map(([key, value]) => [key, null, value])];
}

export class Configuration {
  constructor(shownRuns) {
    Object.assign(this, {shownRuns, keys: new Map()});
    this.one = make('select', {id: 'configuration-run', onchange: event => this.chosen(event.target)});
    this.other = make('select', {id: 'configuration-other', onchange: event => this.chosen(event.target)});
    this.only = make('input', {type: 'checkbox', id: 'only-differences', onchange: () => this.draw()});
    this.filter = make('input', {type: 'search', id: 'configuration-filter', oninput: () => this.draw()});
    this.table = make('tbody', {});
    this.head = make('tr', {});
    this.empty = make('p', {class: 'empty', 'data-word': 'no_configuration'});
    this.body = make('div', {class: 'card'},
      make('div', {class: 'toolbar'}, this.one, make('span', {'data-word': 'compared_with'}), this.other,
        make('label', {}, this.only, make('span', {'data-word': 'only_differences'})),
        make('label', {}, make('span', {'data-word': 'search'}), this.filter)),
      make('div', {class: 'scroll'}, make('table', {class: 'configuration'}, make('thead', {}, this.head), this.table)));
    this.element = make('section', {class: 'panel', id: 'panel-configuration'}, make('h2', {'data-word': 'configuration_title'}), this.empty, this.body);
  }

  show() {
    this.keys.clear();  // a run that was resumed has another
    this.refresh();
  }
  rename() { this.refresh(); }

  refresh() {
    const ids = this.shownRuns().filter(run => run.summary.configuration).map(run => run.data.id);
    this.empty.hidden = ids.length > 0;
    this.body.hidden = ids.length === 0;
    if (ids.length === 0) return;
    const choices = [...ids.map(id => [id, id])];
    this.choose(this.one, choices, ids[0]);
    this.choose(this.other, [['', say('no_other')], ...choices], ids.length > 1 ? ids[1] : '');
    this.draw();
  }

  chosen(select) {
    select.dataset.chosen = 'yes';
    this.draw();
  }

  // What someone chose stays; until then it is the first.
  choose(select, choices, first) {
    const now = choices.map(([, text]) => text).join('\n');
    if (select.dataset.choices === now) return;
    const kept = select.dataset.chosen === undefined ? first : select.value;
    replace(select, ...choices.map(([value, text]) => make('option', {value, text})));
    select.value = choices.some(([value]) => value === kept) ? kept : first;
    select.dataset.choices = now;
  }

  async read(id) {
    if (id !== '' && !this.keys.has(id)) this.keys.set(id, (await getJson(`/board/runs/${id}/configuration`)).keys);
    return this.keys.get(id) ?? null;
  }

  async draw() {
    const [one, other] = [this.one.value, this.other.value];
    const [a, b] = [await this.read(one), await this.read(other)];
    if (!a || one !== this.one.value || other !== this.other.value) return;
    const word = this.filter.value.toLowerCase();
    replace(this.head, ...[say('key'), one, ...(b ? [other] : [])].map(text => make('th', {scope: 'col', text})));
    const rows = joined(a, b).filter(([key, x, y]) => key.toLowerCase().includes(word) && !(b && this.only.checked && x === y));
    replace(this.table, ...rows.map(([key, x, y]) => make('tr', {class: b && x !== y ? 'differs' : null},
      make('th', {scope: 'row', text: key}), make('td', {text: x ?? '–'}), b ? make('td', {text: y ?? '–'}) : null)));
  }
}
