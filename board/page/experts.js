// How routers used their experts: layers down, experts across, one step at a time. White is the even load, red more, blue
// less, as in experts.svg of a run. Counts are read for the step that is looked at.
import {hideTip, later, make, onceAFrame, replace, showTip, sizeCanvas, themeColour} from './dom.js';
import {getJson} from './data.js';
import {short} from './scales.js';
import {say} from './words.js';

const LABEL = 92, ROW = 22, LEAST = 3, MOST = 80;

// Of the even load, from a quarter to four times of it.
export function heat(ratio) {
  const part = Math.max(-1, Math.min(1, Math.log2(Math.max(ratio, 1e-9)) / 2));
  const to = part > 0 ? [178, 24, 43] : [33, 102, 172], size = Math.abs(part);
  return `rgb(${to.map(each => Math.round(247 + (each - 247) * size)).join(' ')})`;
}

export class Experts {
  constructor(shownRuns) {
    Object.assign(this, {shownRuns, rows: [], counts: null});
    this.redraw = onceAFrame(() => this.draw());
    this.readSoon = later(() => this.read(), 40);
    this.choice = make('select', {'aria-label': say('run'), onchange: () => this.refresh(true)});
    this.slider = make('input', {type: 'range', id: 'experts-step', min: 0, max: 0, value: 0, 'aria-label': say('step'), oninput: () => { this.follows = this.at() === this.rows.length - 1; this.readSoon(); }});
    this.label = make('output', {for: 'experts-step'});
    this.canvas = make('canvas', {id: 'experts-map', tabindex: 0, role: 'img',
      onpointermove: event => this.hover(event.offsetX, event.offsetY, event), onpointerleave: hideTip, onkeydown: event => this.key(event)});
    this.facts = make('p', {class: 'facts', id: 'experts-facts'});
    this.empty = make('p', {class: 'empty', 'data-word': 'no_experts'});
    this.body = make('div', {class: 'card'},
      make('div', {class: 'toolbar'}, this.choice, make('label', {class: 'grow'}, make('span', {'data-word': 'step'}), this.slider, this.label)),
      make('div', {class: 'scroll'}, this.canvas), this.key_(), this.facts);
    this.element = make('section', {class: 'panel', id: 'panel-experts'}, make('h2', {'data-word': 'experts_title'}), this.empty, this.body);
    this.follows = true;  // the newest step
    new ResizeObserver(() => this.redraw()).observe(this.body);
  }

  key_() {
    const bar = make('span', {class: 'heat-bar', 'aria-hidden': 'true'});
    return make('p', {class: 'heat-key'}, '¼', bar, '4×', make('span', {'data-word': 'heat_key'}));
  }

  at() { return Number(this.slider.value); }
  run() { return this.shownRuns().find(run => run.data.id === this.choice.value); }

  show() { this.refresh(); }
  refresh(other) {
    const runs = this.shownRuns().filter(run => run.data.column('experts/entropy'));
    this.empty.hidden = runs.length > 0;
    this.body.hidden = runs.length === 0;
    const kept = this.choice.value;
    replace(this.choice, ...runs.map(run => make('option', {value: run.data.id, text: run.data.id})));
    if (runs.some(run => run.data.id === kept)) this.choice.value = kept;
    const run = this.run();
    if (!run) return;
    const entropy = run.data.column('experts/entropy');
    this.rows = [];
    for (let row = 0; row < run.data.rows; ++row) if (!Number.isNaN(entropy.get(row))) this.rows.push(row);
    this.slider.max = Math.max(0, this.rows.length - 1);
    if (this.follows || other) this.slider.value = this.slider.max;
    this.readSoon();
  }

  async read() {
    const run = this.run(), row = this.rows[this.at()];
    if (!run || row === undefined) return;
    const wanted = `${run.data.id} ${row} ${run.data.steps().get(row)}`;
    this.label.textContent = short(run.data.steps().get(row));
    if (this.wanted === wanted) return this.redraw();
    this.wanted = wanted;
    const line = await getJson(`/board/runs/${run.data.id}/line?row=${row}`);
    if (this.wanted !== wanted) return;
    this.experts = line.experts;
    this.layers = Object.entries(line.experts.tokens_per_expert);
    this.step = line.step;
    this.redraw();
  }

  draw() {
    if (!this.layers || this.element.hidden) return;
    const widest = Math.max(1, ...this.layers.map(([, counts]) => counts.length));
    const room = this.canvas.parentElement.clientWidth - LABEL - 2;
    this.cell = Math.max(LEAST, Math.min(MOST, room / widest));
    const context = sizeCanvas(this.canvas, LABEL + this.cell * widest + 1, ROW * this.layers.length + 1);
    context.font = '11px system-ui, sans-serif';
    this.layers.forEach(([name, counts], layer) => {
      const mean = counts.reduce((sum, count) => sum + count, 0) / counts.length || 1e-9;
      context.fillStyle = themeColour('--text');
      context.fillText(name, 0, layer * ROW + 15, LABEL - 8);
      counts.forEach((count, expert) => {
        context.fillStyle = heat(count / mean);
        context.fillRect(LABEL + expert * this.cell, layer * ROW, this.cell - (this.cell > 6 ? 1 : 0), ROW - 1);
      });
    });
    const {entropy, drop_rate: dropped, busiest_rank: busy, busiest_load: load} = this.experts;
    this.facts.textContent = `${say('step')} ${short(this.step)} · ${say('entropy')} ${short(entropy)} · ${say('dropped')} ${short(dropped * 100)} % · ${say('busiest_rank')} ${busy} (${short(load)}×)`;
    this.canvas.setAttribute('aria-label', this.facts.textContent);
  }

  textOf(layer, expert) {
    const [name, counts] = this.layers[layer];
    const mean = counts.reduce((sum, count) => sum + count, 0) / counts.length || 1e-9;
    return [`${name}, ${say('expert')} ${expert}`, `${counts[expert]} ${say('tokens')}`, `${short(counts[expert] / mean)}× ${say('even_load')}`];
  }

  hover(x, y, event) {
    const layer = Math.floor(y / ROW), expert = Math.floor((x - LABEL) / this.cell);
    if (!this.layers?.[layer] || !(expert >= 0 && expert < this.layers[layer][1].length)) return hideTip();
    showTip(this.textOf(layer, expert), event.clientX, event.clientY);
  }

  // Arrows move from cell to cell.
  key(event) {
    const [down, right] = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key] || [];
    if (down === undefined || !this.layers) return;
    event.preventDefault();
    this.cellAt ??= [0, -1];
    const layer = Math.max(0, Math.min(this.layers.length - 1, this.cellAt[0] + down));
    const expert = Math.max(0, Math.min(this.layers[layer][1].length - 1, this.cellAt[1] + right));
    this.cellAt = [layer, expert];
    const box = this.canvas.getBoundingClientRect();
    showTip(this.textOf(layer, expert), box.left + LABEL + expert * this.cell, box.top + layer * ROW);
  }
}
