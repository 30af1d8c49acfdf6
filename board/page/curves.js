// The curves of all shown runs: which charts there are, in which groups, and what they share: zoom, cursor, smoothing, scale.
import {Chart} from './chart.js';
import {find, make, onceAFrame, replace} from './dom.js';
import {say, sayOr} from './words.js';

const FIRST = ['loss', 'eval_loss', 'grad_norm', 'learning_rate', 'tokens_per_second', 'mfu', 'memory_gib', 'reward', 'rewards/margins'];
const TIMES = ['step_seconds', 'data_seconds', 'eval_seconds', 'elapsed_seconds', 'remaining_seconds', 'tokens', 'samples', 'epoch'];

function groupOf(name) {
  if (FIRST.includes(name)) return 'main';
  if (TIMES.includes(name)) return 'times';
  if (name.startsWith('eval_')) return 'evaluation';
  if (name.startsWith('experts/')) return 'experts';
  if (name.startsWith('reward')) return 'rewards';
  return 'objective';
}
const GROUPS = ['main', 'rewards', 'objective', 'evaluation', 'experts', 'times'];

export class Curves {
  // runs(): those that are shown, as {data, colour, dash}.
  constructor(runs) {
    Object.assign(this, {runs, zoom: null, cursor: null, smoothing: 0, log: false, theme: '', charts: new Map()});
    this.redraw = onceAFrame(() => this.draw());
    this.redrawCursor = onceAFrame(() => this.charts.forEach(chart => chart.drawCursor()));
    this.visible = new IntersectionObserver(entries => this.scrolled(entries), {rootMargin: '200px'});
    new ResizeObserver(() => this.redraw()).observe(find('#panels'));
    this.groups = new Map();
    this.body = make('div', {class: 'groups'});
    this.element = make('section', {class: 'panel', id: 'panel-runs'}, this.toolbar(), this.body);
  }

  toolbar() {
    const smoothing = make('input', {type: 'range', min: 0, max: 0.99, step: 0.01, value: 0, id: 'smoothing',
      oninput: event => { this.smoothing = Number(event.target.value); label.textContent = this.smoothing.toFixed(2); this.redraw(); }});
    const label = make('output', {for: 'smoothing', text: '0.00'});
    const log = make('input', {type: 'checkbox', id: 'log-scale', onchange: event => { this.log = event.target.checked; this.redraw(); }});
    this.reset = make('button', {type: 'button', class: 'quiet', id: 'reset-zoom', disabled: true, 'data-word': 'reset_zoom', onclick: () => this.setZoom(null)});
    return make('div', {class: 'toolbar'},
      make('label', {}, make('span', {'data-word': 'smoothing'}), smoothing, label),
      make('label', {}, log, make('span', {'data-word': 'log_scale'})), this.reset,
      make('span', {class: 'hint', 'data-word': 'zoom_hint'}));
  }

  setZoom(zoom) {
    this.zoom = zoom;
    this.reset.disabled = zoom === null;
    this.redraw();
  }
  setCursor(step) {
    this.cursor = step;
    this.redrawCursor();
  }

  // Of a chart that has the focus: arrows move the cursor, + and - zoom around it, Escape shows all.
  key(event) {
    const chart = [...this.charts.values()].find(each => each.svg === event.target);
    if (!chart || !chart.range) return;
    const [low, high] = chart.range, span = high - low, at = this.cursor ?? (low + high) / 2;
    const move = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (move) this.setCursor(Math.min(Math.max(at + move * Math.max(span / 100, 1), low), high));
    else if (event.key === '+' || event.key === '=') this.setZoom([at - span / 4, at + span / 4]);
    else if (event.key === '-') this.setZoom([at - span, at + span]);
    else if (event.key === 'Escape' || event.key === '0') {
      this.setZoom(null);
      this.setCursor(null);
    }
    else return;
    event.preventDefault();
  }

  scrolled(entries) {
    for (const entry of entries) {
      const chart = [...this.charts.values()].find(each => each.element === entry.target);
      if (chart) chart.seen = entry.isIntersecting;
    }
    this.redraw();
  }

  group(name) {
    if (!this.groups.has(name)) {
      const grid = make('div', {class: 'charts'});
      const details = make('details', {open: name !== 'times', 'data-group': name}, make('summary', {'data-word': `group_${name}`, text: say(`group_${name}`)}), grid);
      this.groups.set(name, {details, grid});
      replace(this.body, this.empty, ...GROUPS.filter(each => this.groups.has(each)).map(each => this.groups.get(each).details));
    }
    return this.groups.get(name).grid;
  }

  // Charts for all numbers that any run has; those that are there stay.
  addCharts(runs) {
    const names = new Set(runs.flatMap(run => [...run.data.columns.keys()]));
    for (const name of ['step', ...[...names].filter(each => each.startsWith('plan/'))]) names.delete(name);  // drawn beside what was measured
    const known = name => (FIRST.indexOf(name) + 1) || 100;
    for (const name of [...names].sort((a, b) => known(a) - known(b))) {
      if (this.charts.has(name)) continue;
      const chart = new Chart(name, sayOr(`metric_${name}`, name), this);
      this.charts.set(name, chart);
      this.group(groupOf(name)).append(chart.element);
      this.visible.observe(chart.element);
    }
    for (const [name, chart] of this.charts) chart.element.hidden = !names.has(name);
    for (const {details, grid} of this.groups.values()) details.hidden = [...grid.children].every(child => child.hidden);
  }

  draw() {
    const runs = this.runs();
    this.theme = document.documentElement.dataset.theme + matchMedia('(prefers-color-scheme: dark)').matches;
    this.addCharts(runs);
    this.charts.forEach(chart => chart.draw(runs));
    if (!this.empty) {
      this.empty = make('p', {class: 'empty', 'data-word': 'no_runs', text: say('no_runs')});
      this.body.prepend(this.empty);
    }
    this.empty.hidden = runs.some(run => run.data.rows > 0);
  }

  // Words changed: titles are made again.
  rename() {
    this.charts.forEach(chart => chart.element.remove());
    this.charts.clear();
    this.redraw();
  }
}
