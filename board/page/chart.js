// Chart: one number of all shown runs over their steps, as lines in an SVG, with its values beside the runs' names. Zoom,
// cursor, smoothing and scale are shared by all charts and held elsewhere (`view`).
import {make, makeSvg, replace} from './dom.js';
import {labels, logTicks, path, short, smoothed, thinned, ticks} from './scales.js';
import {say} from './words.js';

const HEIGHT = 220, LEFT = 58, RIGHT = 10, TOP = 8, BOTTOM = 24;
const DOTS_UP_TO = 60;  // so few values are marked one by one

export class Chart {
  constructor(name, title, view) {
    Object.assign(this, {name, view, width: 0, seen: false, drawn: '', cache: new Map()});
    this.legend = make('div', {class: 'legend'});
    this.svg = makeSvg('svg', {height: HEIGHT, tabindex: 0, role: 'img', 'aria-label': `${title}: ${say('chart_keys')}`});
    this.element = make('figure', {class: 'card chart', 'data-name': name},
      make('figcaption', {}, make('h3', {text: title}), title === name ? null : make('code', {text: name})), this.svg, this.legend);
    this.listen();
  }

  listen() {
    const stepAt = event => this.stepAt(event.clientX - this.svg.getBoundingClientRect().left);
    this.svg.addEventListener('pointermove', event => {
      this.view.setCursor(stepAt(event));
      if (this.drag !== undefined) this.drawBrush(this.drag, stepAt(event));
    });
    this.svg.addEventListener('pointerleave', () => this.drag === undefined && this.view.setCursor(null));
    this.svg.addEventListener('pointerdown', event => {
      this.drag = stepAt(event);
      this.svg.setPointerCapture(event.pointerId);
    });
    this.svg.addEventListener('pointerup', event => {
      const from = this.drag, to = stepAt(event);
      this.drag = undefined;
      this.brush?.remove();
      if (from !== undefined && Math.abs(this.x(to) - this.x(from)) > 6) this.view.setZoom([Math.min(from, to), Math.max(from, to)]);
    });
    this.svg.addEventListener('dblclick', () => this.view.setZoom(null));
    this.svg.addEventListener('keydown', event => this.view.key(event));
  }

  drawBrush(from, to) {
    this.brush?.remove();
    const [a, b] = [this.x(Math.min(from, to)), this.x(Math.max(from, to))];
    this.brush = makeSvg('rect', {class: 'brush', x: a, y: TOP, width: b - a, height: HEIGHT - TOP - BOTTOM});
    this.svg.append(this.brush);
  }

  x(step) {
    const [low, high] = this.range || [0, 1];
    return LEFT + (step - low) / (high - low || 1) * (this.width - LEFT - RIGHT);
  }
  stepAt(x) {
    const [low, high] = this.range || [0, 1];
    const step = low + (x - LEFT) / (this.width - LEFT - RIGHT || 1) * (high - low);
    return Math.min(Math.max(step, low), high);
  }

  // Draws again only what changed since.
  draw(runs) {
    const width = Math.floor(this.svg.getBoundingClientRect().width);
    const {smoothing, log, zoom} = this.view;
    const now = JSON.stringify([width, smoothing, log, zoom, this.view.theme, runs.map(run => [run.data.id, run.data.version, run.colour])]);
    if (!this.seen || width === 0) return;
    if (now === this.drawn) return;
    this.drawn = now;
    this.width = width;
    this.lines = runs.map(run => this.lineOf(run)).filter(line => line);
    this.element.hidden = this.lines.length === 0;
    if (this.lines.length === 0) return;
    this.setRanges();
    replace(this.svg, ...this.axes(), ...this.lines.flatMap(line => this.curve(line)));
    this.svg.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
    this.drawCursor();
  }

  lineOf(run) {
    const column = run.data.column(this.name), steps = run.data.steps();
    if (!column || !steps || run.data.rows === 0) return null;
    const [from, to] = this.view.zoom
      ? [Math.max(0, run.data.rowNear(this.view.zoom[0]) - 1), Math.min(run.data.rows, run.data.rowNear(this.view.zoom[1]) + 2)]
      : [0, run.data.rows];
    return {run, column, plan: run.data.column(`plan/${this.name}`), steps, from, to, smooth: this.view.smoothing > 0 ? this.smooth(run.data, column) : null};
  }

  smooth(data, column) {
    const key = `${data.version} ${this.view.smoothing}`, kept = this.cache.get(data.id);
    if (kept && kept.key === key) return kept.values;
    const values = smoothed(column, data.rows, this.view.smoothing);
    this.cache.set(data.id, {key, values});
    return values;
  }

  setRanges() {
    let first = Infinity, last = -Infinity, low = Infinity, high = -Infinity;
    for (const {column, plan, steps, from, to} of this.lines) {
      first = Math.min(first, steps.get(0));
      last = Math.max(last, steps.get(to - 1));
      for (let row = from; row < to; ++row) {
        for (const value of plan ? [column.get(row), plan.get(row)] : [column.get(row)]) {
          if (this.view.log && !(value > 0)) continue;
          if (value < low) low = value;
          if (value > high) high = value;
        }
      }
    }
    this.range = this.view.zoom || [first, last];
    if (low > high) [low, high] = this.view.log ? [0.1, 1] : [0, 1];
    const margin = this.view.log ? (high / low) ** 0.05 : (high - low) * 0.06 || Math.abs(high) * 0.05 || 0.5;
    this.values = this.view.log ? [low / (margin > 1 ? margin : 1.1), high * (margin > 1 ? margin : 1.1)] : [low - margin, high + margin];
  }

  y(value) {
    const [low, high] = this.values;
    if (this.view.log && !(value > 0)) return NaN;
    const part = this.view.log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
    return HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM);
  }

  axes() {
    const rows = (this.view.log ? logTicks : ticks)(this.values[0], this.values[1], 4);
    const steps = ticks(this.range[0], this.range[1], Math.max(2, Math.floor((this.width - LEFT) / 90)));
    const texts = labels(rows);
    return [
      ...rows.map(value => makeSvg('path', {class: 'grid', d: `M${LEFT} ${this.y(value).toFixed(1)}H${this.width - RIGHT}`})),
      ...rows.map((value, i) => makeSvg('text', {class: 'tick', x: LEFT - 6, y: this.y(value) + 3.5, 'text-anchor': 'end', text: texts[i]})),
      ...steps.map(step => makeSvg('text', {class: 'tick', x: this.x(step), y: HEIGHT - 7, 'text-anchor': 'middle', text: short(step)}))];
  }

  curve(line) {
    const {run, column, plan, steps, from, to, smooth} = line;
    const x = row => this.x(steps.get(row));
    const points = value => {
      if (to - from > 2 * this.width) return thinned(from, to, x, row => this.y(value(row)));
      const all = [];
      for (let row = from; row < to; ++row) {
        const y = this.y(value(row));
        if (!Number.isNaN(y)) all.push([x(row), y]);
      }
      return all;
    };
    const raw = points(row => column.get(row));
    const shapes = [makeSvg('path', {
      class: smooth ? 'curve pale' : 'curve', d: path(raw), stroke: run.colour, 'stroke-dasharray': run.dash,
      'data-run': run.data.id, 'data-points': raw.length})];
    if (smooth) shapes.push(makeSvg('path', {class: 'curve', d: path(points(row => smooth[row])), stroke: run.colour, 'stroke-dasharray': run.dash}));
    if (plan) {
      shapes.push(makeSvg('path', {class: 'curve pale plan', d: path(points(row => plan.get(row))), stroke: run.colour, 'stroke-dasharray': '2 4', 'data-plan': run.data.id}));
    }
    if (raw.length <= DOTS_UP_TO && !smooth) shapes.push(...raw.map(([cx, cy]) => makeSvg('circle', {cx, cy, r: 2, fill: run.colour})));
    return shapes;
  }

  // The values at the cursor, or the newest.
  drawCursor() {
    if (!this.lines || this.lines.length === 0 || !this.seen) return;
    this.marks?.remove();
    this.marks = makeSvg('g', {class: 'marks'});
    const step = this.view.cursor;
    if (step !== null) this.marks.append(makeSvg('path', {class: 'cursor', d: `M${this.x(step).toFixed(1)} ${TOP}V${HEIGHT - BOTTOM}`}));
    replace(this.legend, ...this.lines.map(line => this.legendOf(line, step)));
    this.svg.append(this.marks);
  }

  legendOf({run, column, plan, steps, smooth}, step) {
    let row = step === null ? run.data.rows - 1 : run.data.rowNear(step);
    while (step === null && row > 0 && Number.isNaN(column.get(row))) --row;
    const value = column.get(row), y = this.y(smooth ? smooth[row] : value);
    if (step !== null && !Number.isNaN(y)) this.marks.append(makeSvg('circle', {cx: this.x(steps.get(row)), cy: y, r: 3.5, fill: run.colour, class: 'mark'}));
    return make('span', {class: 'entry', 'data-run': run.data.id, 'data-value': value, title: `${run.data.id}: ${value}`},
      swatch(run), make('span', {class: 'who', text: run.data.id}), make('b', {text: short(value)}),
      make('small', {text: `@ ${short(steps.get(row))}`}), planText(plan?.get(row)));
  }
}

// What the run's plan says of the same step; null: it has none.
function planText(value) {
  return Number.isFinite(value) ? make('small', {class: 'plan', text: `${say('plan')} ${short(value)}`}) : null;
}

// A piece of the run's line, so that runs can be told apart without colours, too.
export function swatch(run) {
  return makeSvg('svg', {width: 18, height: 8, class: 'swatch', 'aria-hidden': 'true'},
    makeSvg('path', {d: 'M0 4H18', stroke: run.colour, 'stroke-width': 3, 'stroke-dasharray': run.dash}));
}
