// What every rank did when, from the run's trace.json: a lane for each of a rank's streams, spans as bars. Drag to zoom,
// double click or Escape for all; with the focus on it + and - zoom, arrows move.
import {hideTip, make, onceAFrame, replace, showTip, sizeCanvas, themeColour} from './dom.js';
import {getJson} from './data.js';
import {short, ticks} from './scales.js';
import {say} from './words.js';

const LABEL = 120, LANE = 20, AXIS = 22, COLOURS = 8;

// Spans by lane, lanes by rank and then in the trace's order.
export function lanesOf(events) {
  const ranks = new Map(), names = new Map(), lanes = new Map();
  for (const event of events) {
    if (event.ph === 'M' && event.name === 'process_name') ranks.set(event.pid, event.args.name);
    if (event.ph === 'M' && event.name === 'thread_name') names.set(`${event.pid} ${event.tid}`, event.args.name);
    if (event.ph !== 'X') continue;
    const key = `${event.pid} ${event.tid}`;
    if (!lanes.has(key)) lanes.set(key, {pid: event.pid, tid: event.tid, spans: []});
    lanes.get(key).spans.push(event);
  }
  return [...lanes.entries()].sort(([, a], [, b]) => a.pid - b.pid || a.tid - b.tid).map(([key, lane]) => ({
    ...lane, label: `${ranks.get(lane.pid) ?? lane.pid} · ${names.get(key) ?? lane.tid}`,
    spans: lane.spans.sort((a, b) => a.ts - b.ts || b.dur - a.dur)}));
}

// The fraction of the time in which any of the spans is going on.
export function busyPart(spans, from, to) {
  let busy = 0, reached = from;
  for (const {ts, dur} of spans) {
    const begin = Math.max(ts, reached), end = Math.min(ts + dur, to);
    if (end > begin) busy += end - begin;
    reached = Math.max(reached, end);
  }
  return to > from ? busy / (to - from) : 0;
}

export class Timeline {
  constructor(shownRuns) {
    Object.assign(this, {shownRuns, lanes: [], kinds: new Map(), zoom: null});
    this.redraw = onceAFrame(() => this.draw());
    this.choice = make('select', {id: 'timeline-run', onchange: () => this.read()});
    this.canvas = make('canvas', {id: 'timeline-map', tabindex: 0, role: 'img', 'aria-label': say('timeline_keys'),
      onpointermove: event => this.move(event), onpointerleave: hideTip, ondblclick: () => this.setZoom(null),
      onpointerdown: event => { this.drag = event.offsetX; this.canvas.setPointerCapture(event.pointerId); },
      onpointerup: event => this.dropped(event), onkeydown: event => this.key(event)});
    this.facts = make('p', {class: 'facts', id: 'timeline-facts'});
    this.problem = make('p', {class: 'empty', 'data-word': 'no_trace'});
    this.body = make('div', {class: 'card'}, make('div', {class: 'toolbar'}, this.choice,
      make('span', {class: 'hint', 'data-word': 'timeline_keys'})), make('div', {class: 'scroll'}, this.canvas), this.facts);
    this.element = make('section', {class: 'panel', id: 'panel-timeline'}, make('h2', {'data-word': 'timeline_title'}), this.problem, this.body);
    new ResizeObserver(() => this.redraw()).observe(this.body);
  }

  show() { this.refresh(); }
  refresh() {
    const runs = this.shownRuns().filter(run => run.summary.trace);
    this.problem.hidden = runs.length > 0;
    this.body.hidden = runs.length === 0;
    const kept = this.choice.value;
    replace(this.choice, ...runs.map(run => make('option', {value: run.data.id, text: run.data.id})));
    if (runs.some(run => run.data.id === kept)) this.choice.value = kept;
    if (runs.length > 0 && this.loaded !== this.choice.value) this.read();
    this.redraw();
  }

  async read() {
    const id = this.choice.value;
    this.loaded = id;
    this.facts.textContent = say('reading');
    try {
      const trace = await getJson(`/board/runs/${id}/trace`);
      if (this.loaded !== id) return;
      this.lanes = lanesOf(trace.traceEvents);
      this.end = Math.max(1, ...this.lanes.map(lane => lane.spans.reduce((last, span) => Math.max(last, span.ts + span.dur), 0)));
      this.zoom = null;
      this.canvas.dataset.lanes = this.lanes.length;
      this.redraw();
    } catch (problem) {
      this.facts.textContent = problem.message;
    }
  }

  range() { return this.zoom || [0, this.end]; }
  setZoom(zoom) {
    this.zoom = zoom && [Math.max(0, zoom[0]), Math.min(this.end, zoom[1])];
    this.redraw();
  }
  timeAt(x) {
    const [from, to] = this.range();
    return from + Math.min(Math.max((x - LABEL) / (this.width - LABEL), 0), 1) * (to - from);
  }
  x(time) {
    const [from, to] = this.range();
    return LABEL + (time - from) / (to - from) * (this.width - LABEL);
  }

  // Spans of one kind ("F3.1" and "F0.0") have one colour.
  colour(name) {
    const kind = name.match(/^[^\d\s.:(]+/)?.[0] ?? name;
    if (!this.kinds.has(kind)) this.kinds.set(kind, this.kinds.size % COLOURS);
    return themeColour(`--line-${this.kinds.get(kind)}`);
  }

  draw() {
    if (this.element.hidden || this.lanes.length === 0) return;
    this.width = Math.max(320, this.canvas.parentElement.clientWidth - 2);
    const context = sizeCanvas(this.canvas, this.width, AXIS + LANE * this.lanes.length);
    context.font = '11px system-ui, sans-serif';
    const [from, to] = this.range(), text = themeColour('--text'), faint = themeColour('--faint'), line = themeColour('--line');
    for (const time of ticks(from, to, Math.floor((this.width - LABEL) / 100))) {
      context.fillStyle = line;
      context.fillRect(this.x(time), AXIS - 4, 1, LANE * this.lanes.length + 4);
      context.fillStyle = faint;
      context.fillText(`${short(time / 1000)} ms`, this.x(time) + 3, 12);
    }
    this.lanes.forEach((lane, row) => this.drawLane(context, lane, AXIS + row * LANE, text));
    const busy = this.lanes.map(lane => busyPart(lane.spans, from, to));
    this.facts.textContent = `${this.lanes.length} ${say('lanes')} · ${short((to - from) / 1000)} ms · ` +
      this.lanes.map((lane, i) => `${lane.label}: ${Math.round(busy[i] * 100)} %`).slice(0, 16).join(', ');
  }

  drawLane(context, lane, top, text) {
    const [from, to] = this.range();
    for (const span of lane.spans) {
      if (span.ts + span.dur < from || span.ts > to) continue;
      const x = Math.max(this.x(span.ts), LABEL), width = Math.max(this.x(Math.min(span.ts + span.dur, to)) - x, 0.6);
      context.fillStyle = this.colour(span.name);
      context.fillRect(x, top + 2, width > 2 ? width - 0.6 : width, LANE - 4);
      if (width < 18 || context.measureText(span.name).width > width - 6) continue;
      context.fillStyle = themeColour('--card');
      context.fillText(span.name, x + 4, top + 14);
    }
    context.fillStyle = text;
    context.fillText(lane.label, 0, top + 14, LABEL - 8);
  }

  spanAt(x, y) {
    const lane = this.lanes[Math.floor((y - AXIS) / LANE)], time = this.timeAt(x);
    if (!lane || x < LABEL) return null;
    const found = lane.spans.filter(span => span.ts <= time && time <= span.ts + span.dur).pop();  // the innermost
    return found && {lane, span: found};
  }

  move(event) {
    const hit = this.spanAt(event.offsetX, event.offsetY);
    if (!hit) return hideTip();
    const {lane, span} = hit;
    showTip([span.name, lane.label, `${short(span.dur / 1000)} ms @ ${short(span.ts / 1000)} ms`,
      ...Object.entries(span.args || {}).map(([key, value]) => `${key}: ${value}`)], event.clientX, event.clientY);
  }

  dropped(event) {
    const from = this.drag, to = event.offsetX;
    this.drag = undefined;
    if (from !== undefined && Math.abs(to - from) > 6) this.setZoom([this.timeAt(Math.min(from, to)), this.timeAt(Math.max(from, to))]);
  }

  key(event) {
    if (this.lanes.length === 0) return;
    const [from, to] = this.range(), span = to - from;
    const zooms = {'+': [from + span / 4, to - span / 4], '=': [from + span / 4, to - span / 4], '-': [from - span / 2, to + span / 2],
      ArrowLeft: [from - span / 8, to - span / 8], ArrowRight: [from + span / 8, to + span / 8], Escape: null, 0: null};
    if (!(event.key in zooms)) return;
    event.preventDefault();
    const zoom = zooms[event.key];
    if (zoom === null || (zoom[0] < this.end && zoom[1] > 0)) this.setZoom(zoom);
  }
}
