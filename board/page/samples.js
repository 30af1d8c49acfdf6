// What a run sampled while it trained: rollouts.jsonl, newest first, groups of one prompt together. Fields that are not
// known are shown as they are.
import {make, replace} from './dom.js';
import {getJson} from './data.js';
import {short} from './scales.js';
import {say} from './words.js';

const textOf = value => typeof value === 'string' ? value : JSON.stringify(value, null, 1);

// By step and group; a rollout without either is alone.
export function groupsOf(lines) {
  const groups = new Map();
  lines.forEach((line, i) => {
    const key = line.group === undefined ? `alone ${i}` : `${line.step} ${line.group}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(line);
  });
  return [...groups.values()];
}

export class Samples {
  constructor(shownRuns) {
    Object.assign(this, {shownRuns, lines: [], before: null});
    this.choice = make('select', {id: 'samples-run', onchange: () => this.read()});
    this.more = make('button', {type: 'button', class: 'quiet', 'data-word': 'older', onclick: () => this.readMore()});
    this.newest = make('button', {type: 'button', class: 'quiet', 'data-word': 'newest', onclick: () => this.read()});
    this.list = make('div', {class: 'samples'});
    this.problem = make('p', {class: 'empty', 'data-word': 'no_samples'});
    this.body = make('div', {}, make('div', {class: 'toolbar'}, this.choice, this.newest), this.list, this.more);
    this.element = make('section', {class: 'panel', id: 'panel-samples'}, make('h2', {'data-word': 'samples_title'}), this.problem, this.body);
  }

  show() { this.refresh(); }
  refresh() {
    const runs = this.shownRuns().filter(run => run.summary.rollouts);
    this.problem.hidden = runs.length > 0;
    this.body.hidden = runs.length === 0;
    const kept = this.choice.value;
    replace(this.choice, ...runs.map(run => make('option', {value: run.data.id, text: run.data.id})));
    if (runs.some(run => run.data.id === kept)) this.choice.value = kept;
    if (runs.length > 0 && this.loaded !== this.choice.value) this.read();
  }

  async read() {
    this.loaded = this.choice.value;
    this.lines = [];
    this.before = null;
    await this.readMore();
  }

  async readMore() {
    const query = this.before === null ? '' : `?before=${this.before}`;
    const answer = await getJson(`/board/runs/${this.loaded}/rollouts${query}`);
    this.lines = [...answer.lines, ...this.lines];
    this.before = answer.before;
    this.more.hidden = answer.before === null;
    replace(this.list, ...groupsOf(this.lines).reverse().map(group => this.group(group)));
  }

  group(lines) {
    const first = lines[0];
    return make('article', {class: 'card sample'},
      make('header', {text: first.step === undefined ? '' : `${say('step')} ${first.step}`}),
      first.prompt === undefined ? null : make('pre', {class: 'prompt', text: textOf(first.prompt)}),
      ...lines.map(line => this.completion(line)));
  }

  completion(line) {
    const rewards = typeof line.rewards === 'object' && line.rewards !== null ? Object.entries(line.rewards) : [];
    if (typeof line.reward === 'number') rewards.push(['reward', line.reward]);
    if (typeof line.advantage === 'number') rewards.push(['advantage', line.advantage]);
    const rest = Object.entries(line).filter(([key]) => !['prompt', 'completion', 'rewards', 'reward', 'advantage', 'step', 'group'].includes(key));
    return make('div', {class: 'completion'},
      make('div', {class: 'rewards'}, ...rewards.map(([name, value]) => make('span', {class: 'chip', text: `${name} ${short(value)}`}))),
      make('pre', {text: textOf(line.completion ?? '')}),
      rest.length === 0 ? null : make('details', {}, make('summary', {text: rest.map(([key]) => key).join(', ')}),
        ...rest.map(([key, value]) => make('pre', {class: 'rest', text: `${key}: ${textOf(value)}`}))));
  }

  rename() { if (this.loaded && !this.body.hidden) replace(this.list, ...groupsOf(this.lines).reverse().map(group => this.group(group))); }
}
